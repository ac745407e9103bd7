"""Which Python and which programs of this machine a build uses, on machines of every kind."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from swe_sdk.errors import InputError, MissingTool
from swe_sdk.sandbox.contract import Mount
from swe_sdk.sandbox.providers.local.toolchain import find_python, find_toolchain

MakePython = Callable[..., Path]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose PATH has git and one folder of ours, and whose user has an empty home."""
    home = tmp_path / "home" / "me"
    home.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(home / "pyenv"))
    return home


@pytest.fixture
def make_python(tmp_path: Path) -> MakePython:
    """Writes programs that answer as an interpreter of some version would; none of these versions exists."""

    def make(path: str, version: str, *, complete: bool = True, exit_code: int = 0) -> Path:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        answer = json.dumps([version, str(file.parent.parent), str(file), complete])
        file.write_text(f"#!/bin/sh\necho '{answer}'\nexit {exit_code}\n")
        file.chmod(0o755)
        return file

    return make


def make_tool(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


# -- Python -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", ["3.29", "3.29.4", ">=3.28,<3.30", "~=3.29.0", "==3.29.*", " 3.29 ", ">3.28"])
def test_a_version_or_a_specifier_names_an_interpreter(home: Path, make_python: MakePython, wanted: str) -> None:
    make_python("bin/python3.27", "3.27.9")
    chosen = make_python("bin/python3.29", "3.29.4")
    found = find_python(wanted, home / "fetched")
    assert (found.version, found.executable) == ("3.29.4", str(chosen))


def test_the_python_that_runs_this_comes_first(home: Path) -> None:
    for wanted in (f"3.{sys.version_info.minor}", ">=3.8"):
        found = find_python(wanted, home / "fetched")
        assert found.version == ".".join(map(str, sys.version_info[:3]))
        assert found.prefix == os.path.realpath(sys.base_prefix)


@pytest.mark.parametrize("place", ["home/me/pyenv/versions/3.26.1/bin/python3", "fetched/cpython-3.26/bin/python3"])
def test_pyenv_and_fetched_ones_are_found(tmp_path: Path, home: Path, make_python: MakePython, place: str) -> None:
    chosen = make_python(place, "3.26.1")
    assert find_python("3.26", tmp_path / "fetched").executable == str(chosen)


def test_broken_ones_are_passed_over(tmp_path: Path, home: Path, make_python: MakePython) -> None:
    make_python("bin/python3.29", "3.29.0", exit_code=1)
    make_tool(tmp_path / "bin" / "python3.28").write_text("#!/bin/sh\necho no json\n")
    (tmp_path / "bin" / "python3.27").symlink_to("/nonexistent")
    chosen = make_python("home/me/pyenv/versions/3.29.1/bin/python3", "3.29.1")
    assert find_python(">=3.25", tmp_path / "fetched").executable == str(chosen)


def test_one_without_venv_is_used_only_to_say_what_is_missing(
    tmp_path: Path, home: Path, make_python: MakePython
) -> None:
    incomplete = make_python("bin/python3.29", "3.29.0", complete=False)
    with pytest.raises(MissingTool, match=r"apt-get install python3\.29-venv") as caught:
        find_python("3.29", tmp_path / "fetched")
    assert str(incomplete) in str(caught.value)
    complete = make_python("home/me/pyenv/versions/3.29.1/bin/python3", "3.29.1")
    assert find_python("3.29", tmp_path / "fetched").executable == str(complete)


@pytest.mark.parametrize("wanted", ["three", "3.x", ">=", "3.9 or so", "--help", "3..9"])
def test_what_is_no_version_is_refused(home: Path, wanted: str) -> None:
    with pytest.raises(InputError, match="no Python version"):
        find_python(wanted, home / "fetched")


def test_a_version_that_nobody_has_is_a_missing_tool_that_says_what_to_do(home: Path) -> None:
    """uv is asked, and knows none either."""
    with pytest.raises(MissingTool, match=r"Python 3\.99 .*uv could not fetch it: \S.* not found on this machine") as e:
        find_python("3.99", home / "fetched")
    assert "pyenv" in e.value.remedy


def test_uv_fetches_what_is_not_there(
    tmp_path: Path, home: Path, make_python: MakePython, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = make_python("ready/bin/python3", "3.25.3")
    uv = make_tool(tmp_path / "uv")
    uv.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/asked\nfor i; do [ "$last" = --install-dir ] && into=$i; last=$i; done\n'
        f'mkdir -p "$into/cpython/bin" && cp {ready} "$into/cpython/bin/"\n'
    )
    monkeypatch.setattr("uv.find_uv_bin", lambda: str(uv))
    found = find_python("==3.25.*", tmp_path / "fetched")
    assert found.version == "3.25.3"
    assert (tmp_path / "asked").read_text().split()[-1] == "==3.25.*"


def test_without_uv_the_remedy_is_the_same(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_uv() -> str:
        raise FileNotFoundError("uv")

    monkeypatch.setattr("uv.find_uv_bin", no_uv)
    with pytest.raises(MissingTool, match="pyenv"):
        find_python("3.24", home / "fetched")


# -- programs ---------------------------------------------------------------------------------------------------------


def test_programs_of_the_system_need_no_mount(home: Path) -> None:
    found = find_toolchain(None, ["sh", "tar"], home / "fetched")
    assert (found.python, found.mounts, found.path) == (None, (), ())
    assert found.fingerprint[0] == "git"


def test_a_missing_program_is_named_with_its_remedy(home: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingTool, match="no-such-tool") as caught:
        find_toolchain(None, ["no-such-tool"], home / "fetched")
    assert caught.value.remedy == "install no-such-tool"


def test_a_tool_is_no_path(home: Path) -> None:
    with pytest.raises(InputError, match="is a path"):
        find_toolchain(None, ["/bin/sh"], home / "fetched")


def test_well_known_programs_have_a_better_remedy(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home))
    with pytest.raises(MissingTool, match="apt-get install git"):
        find_toolchain(None, [], home / "fetched")
    make_tool(home / "git")
    with pytest.raises(MissingTool, match="apt-get install nodejs"):
        find_toolchain(None, ["node"], home / "fetched")


def test_an_installation_elsewhere_is_mounted_whole(home: Path, tmp_path: Path) -> None:
    real = make_tool(home / ".nvm" / "versions" / "v20" / "bin" / "node")
    (tmp_path / "bin" / "node").symlink_to(real)
    found = find_toolchain(None, ["node"], home / "fetched")
    prefix = str(home / ".nvm" / "versions" / "v20")
    assert found.mounts == (Mount(source=prefix, target=prefix),)
    assert found.path == (f"{prefix}/bin",)


@pytest.mark.parametrize("place", ["tool", "bin/tool", ".local/bin/tool", "scripts/tool", "../bin/tool"])
def test_a_program_among_the_users_files_is_mounted_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """A box must not see the rest of a home, with its keys and tokens, because one program lies there."""
    tool = make_tool(Path(os.path.normpath(home / place)))
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    found = find_toolchain(None, ["tool"], home / "fetched")
    assert found.mounts == (Mount(source=str(tool), target=str(tool)),)
    assert found.path == (str(tool.parent),)


def test_a_python_elsewhere_is_mounted_by_its_prefix(tmp_path: Path, home: Path, make_python: MakePython) -> None:
    chosen = make_python("home/me/pyenv/versions/3.29.1/bin/python3", "3.29.1")
    found = find_toolchain("3.29", [], home / "fetched")
    assert found.python == str(chosen)
    prefix = str(home / "pyenv" / "versions" / "3.29.1")
    assert found.mounts == (Mount(source=prefix, target=prefix),)
    assert any("3.29.1" in part for part in found.fingerprint)


# -- Rust -------------------------------------------------------------------------------------------------------------


def test_what_stands_behind_rustup_is_mounted(tmp_path: Path, home: Path) -> None:
    real = make_tool(tmp_path / "toolchains" / "stable" / "bin" / "cargo")
    rustup = make_tool(home / ".cargo" / "bin" / "rustup")
    rustup.write_text(f'#!/bin/sh\n[ "$1 $2" = "which cargo" ] && echo {real}\n')
    (tmp_path / "bin" / "cargo").symlink_to(rustup)
    found = find_toolchain(None, ["cargo"], home / "fetched")
    prefix = str(real.parent.parent)
    assert found.mounts == (Mount(source=prefix, target=prefix),)
    assert found.path == (str(real.parent),)
    assert f"cargo:{real}" in found.fingerprint


def test_rustup_without_a_toolchain_is_a_missing_tool(tmp_path: Path, home: Path) -> None:
    rustup = make_tool(home / ".cargo" / "bin" / "rustup")
    rustup.write_text("#!/bin/sh\necho 'error: no toolchain' >&2\nexit 1\n")
    (tmp_path / "bin" / "cargo").symlink_to(rustup)
    with pytest.raises(MissingTool, match="rustup default stable"):
        find_toolchain(None, ["cargo"], home / "fetched")
