"""What a build box is told of the way to the package index, against pip's own reading of the same files."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from swe_sdk.sandbox.index_settings import index_settings

USER = """
[global]
index-url = https://user:p%40ss@index.example/simple
extra-index-url =
    https://one.example
    https://two.example
target = /somewhere
log = /root/pip.log
root = /elsewhere
no-deps = true
dry-run = true
[install]
trusted_host = index.example
"""


class Home:
    """A user's home, and a system-wide place, for pip's files."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.environ = {"HOME": str(root / "home"), "PATH": os.defpath, "XDG_CONFIG_DIRS": str(root / "xdg")}

    def write(self, place: str, text: str) -> Path:
        path = self._root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def pip_says(self) -> dict[str, str]:
        """The settings that pip itself would use, as the variables that mean the same."""
        command = [sys.executable, "-m", "pip", "config", "list"]
        said = subprocess.run(command, env=self.environ, capture_output=True, text=True, check=True).stdout
        found = {}
        for line in sorted(said.splitlines(), reverse=True):  # [install] goes before [global]
            key, value = line.split("=", 1)
            section, name = key.split(".", 1)
            if section in ("global", "install"):
                found.setdefault(f"PIP_{name.upper().replace('-', '_')}", ast.literal_eval(value))
        return found


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.write("xdg/pip/pip.conf", "[global]\ntimeout = 7\nretries = 9\nindex-url = https://weakest.example\n")
    home.write("home/.pip/pip.conf", "[global]\nindex-url = https://weaker.example\ntimeout = 8\n")
    home.write("home/.config/pip/pip.conf", USER)
    home.write("named.conf", "[global]\nindex-url = https://named.example\n")
    return home


def named(home: Home, value: str) -> None:
    home.environ["PIP_CONFIG_FILE"] = value


PLACES = {
    "the user's files": lambda home, root: None,
    "a named file": lambda home, root: named(home, str(root / "named.conf")),
    "a named file that is not there": lambda home, root: named(home, str(root / "missing.conf")),
    "no files at all": lambda home, root: named(home, os.devnull),
    "another configuration directory": lambda home, root: home.environ.update(XDG_CONFIG_HOME=str(root / "empty")),
}


@pytest.mark.parametrize("arrange", PLACES.values(), ids=list(PLACES))
def test_files_mean_what_pip_takes_them_to_mean(home: Home, tmp_path: Path, arrange: object) -> None:
    arrange(home, tmp_path)  # type: ignore[operator]
    env, _mounts = index_settings(home.environ)
    expected = home.pip_says()
    network = {"INDEX_URL", "EXTRA_INDEX_URL", "TRUSTED_HOST", "TIMEOUT", "RETRIES", "CERT"}
    assert env == {name: value for name, value in expected.items() if name.removeprefix("PIP_") in network}


def test_variables_go_before_files_unless_they_are_empty(home: Home) -> None:
    home.environ |= {"PIP_INDEX_URL": "https://variable.example", "PIP_TIMEOUT": ""}
    env, _mounts = index_settings(home.environ)
    assert env["PIP_INDEX_URL"] == "https://variable.example"
    assert env["PIP_TIMEOUT"] == "8"


@pytest.mark.parametrize("setting", ["TARGET", "ROOT", "LOG", "NO_DEPS", "PREFIX", "USER", "CONSTRAINT", "PRE"])
def test_what_is_installed_and_where_is_not_the_users_to_say(home: Home, setting: str) -> None:
    home.environ[f"PIP_{setting}"] = "1"
    env, _mounts = index_settings(home.environ)
    assert f"PIP_{setting}" not in env


def test_nothing_else_of_the_user_is_passed_on(home: Home) -> None:
    ours = {"https_proxy": "http://proxy:1", "NO_PROXY": "localhost", "UV_INDEX_URL": "https://uv.example"}
    private = {"AWS_SECRET_ACCESS_KEY": "x", "GITHUB_TOKEN": "x", "PYTHONPATH": "/x", "UV_CACHE_DIR": "/x"}
    named(home, os.devnull)
    env, mounts = index_settings({**home.environ, **ours, **private})
    assert env == ours
    assert mounts == ()


def test_certificates_are_mounted_where_a_box_would_not_see_them(home: Home, tmp_path: Path) -> None:
    bundle = home.write("certificates/own.pem", "certificate")
    link = tmp_path / "link.pem"
    link.symlink_to(bundle)
    home.write("home/.config/pip/pip.conf", f"[global]\ncert = {link}\n")
    home.environ |= {"SSL_CERT_FILE": str(bundle), "CURL_CA_BUNDLE": "/etc/ssl/certs/some.crt", "GIT_SSL_CAINFO": "own"}
    home.environ |= {"REQUESTS_CA_BUNDLE": str(tmp_path / "missing.pem")}
    env, mounts = index_settings(home.environ)
    assert {(mount.source, mount.target) for mount in mounts} == {(str(bundle), str(bundle)), (str(bundle), str(link))}
    assert env["PIP_CERT"] == str(link)


@pytest.mark.parametrize("text", ["no section\n", "[global]\nindex-url\n", "[global]\n[global]\n", "\xff"])
def test_a_malformed_file_is_left_to_pip_to_complain_about(home: Home, text: str) -> None:
    path = home.write("home/.config/pip/pip.conf", "")
    path.write_bytes(text.encode("latin-1"))
    env, _mounts = index_settings(home.environ)
    assert env["PIP_INDEX_URL"] == "https://weaker.example"


def test_this_machine_has_settings_that_can_be_read() -> None:
    env, mounts = index_settings()
    assert all(isinstance(value, str) for value in env.values())
    assert all(os.path.exists(mount.source) for mount in mounts)
