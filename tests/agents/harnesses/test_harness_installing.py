"""What installing needs of this machine, and what is said where it is not there. Real uv, real npm files."""

from __future__ import annotations

import base64
import hashlib
import http.server
import io
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from swe_sdk.agents.harnesses.index import uv_environment
from swe_sdk.agents.harnesses.npm_program import NpmFile, NpmProgram
from swe_sdk.agents.harnesses.pinned import HARNESSES
from swe_sdk.agents.harnesses.python_packages import PythonPackages
from swe_sdk.agents.harnesses.registry_file import registry_url
from swe_sdk.errors import HarnessUnavailable, MissingTool

CLOSED = "http://127.0.0.1:9/"


def tarball(name: str, content: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        about = tarfile.TarInfo(name)
        about.size = len(content)
        archive.addfile(about, io.BytesIO(content))
    return packed.getvalue()


TARBALL = tarball("package/bin/tool", b"#!/bin/sh\necho works\n")


def program(content: bytes = TARBALL, machine: str | None = None) -> NpmProgram:
    import platform

    digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
    files = {
        machine or platform.machine(): NpmFile(
            package="@scope/tool", sha512=digest, program="package/bin/tool", suffix="-linux"
        )
    }
    return NpmProgram(name="tool", version="1.2.3", files=files)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A registry on loopback; what it was asked for."""
    asked: list[str] = []

    class Registry(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200 if self.path.endswith("/@scope/tool/-/tool-1.2.3-linux.tgz") else 404)
            self.end_headers()
            self.wfile.write(TARBALL)

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{server.server_port}/npm/")
        yield asked
        server.shutdown()
        thread.join()


@pytest.fixture
def no_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("no_npm")
def test_without_npm_the_file_comes_from_its_registry(registry: list[str], tmp_path: Path) -> None:
    program().make(tmp_path)
    assert registry == ["/npm/@scope/tool/-/tool-1.2.3-linux.tgz"]
    assert (tmp_path / "bin" / "tool").read_bytes().endswith(b"echo works\n")
    assert (tmp_path / "bin" / "tool").stat().st_mode & 0o777 == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


@pytest.mark.usefixtures("no_npm", "registry")
def test_another_file_than_the_one_that_was_tried_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessUnavailable, match="not the one that was tried"):
        program(TARBALL + b"x").make(tmp_path)


@pytest.mark.usefixtures("no_npm")
def test_a_registry_that_cannot_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("npm_config_registry", CLOSED)
    with pytest.raises(HarnessUnavailable, match="apt-get install npm"):
        program().make(tmp_path)


def test_no_build_for_this_machine() -> None:
    with pytest.raises(HarnessUnavailable, match=r"there is no build for .*there is one for pdp11"):
        program(machine="pdp11").key()


def test_where_the_registry_is(tmp_path: Path) -> None:
    (tmp_path / ".npmrc").write_text(
        "# registry=no\n//x/:_authToken=secret\nregistry = 'https://mirror.example/npm/'\n"
    )
    assert registry_url({"HOME": str(tmp_path)}) == "https://mirror.example/npm/"
    assert registry_url({"HOME": str(tmp_path), "NPM_CONFIG_REGISTRY": "https://a.example"}) == "https://a.example"
    assert registry_url({"HOME": str(tmp_path / "nobody")}) == "https://registry.npmjs.org/"


def test_an_index_that_cannot_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", CLOSED + "simple")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_FIND_LINKS", "")
    monkeypatch.setenv("UV_INDEX", "")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    (tmp_path / "it").mkdir()
    with pytest.raises(HarnessUnavailable, match="reaches its package index"):
        HARNESSES["mini-swe-agent"].make(tmp_path / "it")


def test_no_python_of_that_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SWE_SDK_STATE", str(tmp_path))
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    with pytest.raises(MissingTool, match=r"Python ==4\.2"):
        PythonPackages(name="mini-swe-agent", version="1", python="==4.2.*", imports=()).key()


def test_uv_is_told_what_pip_is_told() -> None:
    told = {
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": "https://mirror.example/simple",
        "PIP_EXTRA_INDEX_URL": "https://own.example/simple",
        "PIP_CERT": "/ca.pem",
        "HOME": "/nobody",
    }
    env = uv_environment(told)
    assert env["UV_DEFAULT_INDEX"] == "https://mirror.example/simple"
    assert env["UV_INDEX"] == "https://own.example/simple"
    assert env["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    assert env["SSL_CERT_FILE"] == "/ca.pem"
    own = uv_environment({**told, "UV_DEFAULT_INDEX": "https://uv.example/simple"})
    assert own["UV_DEFAULT_INDEX"] == "https://uv.example/simple", "its own settings come first"


def test_lock_files_name_one_version_of_each_package() -> None:
    for name, maker in HARNESSES.items():
        if isinstance(maker, PythonPackages):
            lines = [line for line in maker.lock.read_text().splitlines() if line and not line.startswith("#")]
            packages = [line.partition("==")[0] for line in lines]
            assert all("==" in line for line in lines), name
            assert len(set(packages)) == len(packages), name
            assert any(line.endswith(f"=={maker.version}") for line in lines), name
