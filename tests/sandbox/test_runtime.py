"""The interpreter that is carried into containers: whole, made once, and needing nothing of where it goes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from swe_sdk.errors import PrerequisiteError
from swe_sdk.sandbox import elf, runtime
from swe_sdk.sandbox.runtime import ensure_runtime


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> runtime.Runtime:
    return ensure_runtime(tmp_path_factory.mktemp("state"))


def test_it_starts_with_nothing_around_it_and_loads_from_itself_alone(made: runtime.Runtime) -> None:
    code = (
        "from boxside import inside; import sys, json\n"
        "fields = [line.split() for line in open('/proc/self/maps')]\n"
        "maps = {field[5] for field in fields if 'x' in field[1] and len(field) > 5}\n"
        "files = {m.__file__ for m in sys.modules.values() if getattr(m, '__file__', None)}\n"
        "print(json.dumps([sys.path, sorted(maps), sorted(files)]))"
    )
    done = subprocess.run([*made.interpreter(str(made.path)), "-c", code], capture_output=True, text=True, env={})
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for names in json.loads(done.stdout):
        foreign = [name for name in names if name.startswith("/") and not name.startswith(str(made.path))]
        assert foreign == []


def test_no_variable_and_no_working_directory_changes_what_it_loads(made: runtime.Runtime, tmp_path: Path) -> None:
    (tmp_path / "boxside.py").write_text("raise SystemExit('hijacked')\n")
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit('hijacked')\n")
    env = {"PYTHONPATH": str(tmp_path), "PYTHONHOME": str(tmp_path), "LD_LIBRARY_PATH": str(tmp_path)}
    (tmp_path / "libc.so.6").write_text("no library")
    command = [*made.interpreter(str(made.path)), "-c", "from boxside import inside; print(inside.__file__)"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path)
    assert done.stdout.startswith(str(made.path)), done.stderr


def test_a_copy_anywhere_is_as_good(made: runtime.Runtime, tmp_path: Path) -> None:
    """In a container it lies at another place than here."""
    shutil.copytree(made.path, tmp_path / "moved")
    command = [*made.interpreter(str(tmp_path / "moved")), "-c", "import json; print(json.__file__)"]
    done = subprocess.run(command, capture_output=True, text=True, env={})
    assert done.stdout.startswith(str(tmp_path / "moved")), done.stderr


def test_it_is_made_once_by_however_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fillings: list[Path] = []
    real = runtime._fill
    monkeypatch.setattr(runtime, "_fill", lambda path: (fillings.append(path), real(path)))
    with ThreadPoolExecutor(6) as threads:
        found = set(threads.map(lambda _: ensure_runtime(tmp_path).path, range(6)))
    assert len(found) == len(fillings) == 1
    assert [path.name for path in (tmp_path / "runtimes").iterdir() if path.is_dir()] == [found.pop().name]


def test_a_failure_leaves_nothing_and_says_whose_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_LIST", "raise SystemExit(3)")
    with pytest.raises(PrerequisiteError, match="cannot be carried"):
        ensure_runtime(tmp_path)
    assert [path for path in (tmp_path / "runtimes").iterdir() if path.is_dir()] == []


def test_other_sources_make_another_one(made: runtime.Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = runtime._key()
    shutil.copytree(runtime._boxside(), tmp_path / "boxside")
    with (tmp_path / "boxside/inside.py").open("a") as file:
        file.write("# changed\n")
    monkeypatch.setattr(runtime, "_boxside", lambda: tmp_path / "boxside")
    assert runtime._key() != before


def test_old_ones_go_and_those_in_use_stay(tmp_path: Path) -> None:
    home = tmp_path / "runtimes"
    for name, age_s in (("old", 40 * 24 * 3600), ("young", 3600)):
        (home / name).mkdir(parents=True)
        os.utime(home / name, (0, home.stat().st_mtime - age_s))
    ensure_runtime(tmp_path)
    assert {path.name for path in home.iterdir()} >= {"young"}
    assert not (home / "old").exists()


def test_the_loader_is_read_from_the_program_itself() -> None:
    loader = elf.interpreter(os.path.realpath(sys.executable))
    assert loader is None or Path(loader).exists()
    with pytest.raises(ValueError, match="no 64-bit ELF"):
        elf.interpreter(__file__)
