"""Environments with a Python, from an index of our own on this machine's loopback: a build box shares its network."""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from swe_sdk.errors import BuildFailed
from swe_sdk.model.environment import DirectorySource, SdistSource, SourceEnvironment
from swe_sdk.sandbox.environments import prepare
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.sandbox.boxes import output

pytestmark = pytest.mark.anyio
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
BACKEND = b"""
import os, zipfile
META = "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n"
def prepare_metadata_for_build_wheel(directory, settings=None):
    os.makedirs(f"{directory}/tiny-1.0.dist-info")
    open(f"{directory}/tiny-1.0.dist-info/METADATA", "w").write(META)
    open(f"{directory}/tiny-1.0.dist-info/WHEEL", "w").write("Wheel-Version: 1.0\\nTag: py3-none-any\\n")
    return "tiny-1.0.dist-info"
"""
FILES = {
    "pyproject.toml": b'[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    b'[project]\nname = "tiny"\nversion = "1.0"\n',
    "backend.py": BACKEND,
    "PKG-INFO": b"Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
    "tiny/__init__.py": b"answer = 42\n",
    ".gitignore": b"*.c\n",
    "tiny/generated.c": b"int x;\n",
    "a file with spaces": b"x\n",
}


def sdist_tar() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in FILES.items():
            info = tarfile.TarInfo(f"tiny-1.0/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def sdist_zip() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in FILES.items():
            archive.writestr(f"tiny-1.0/{name}", content)
    return packed.getvalue()


class Index:
    """A package index with one project, ``tiny`` 1.0."""

    def __init__(self, root: Path) -> None:
        self.root = root / "simple" / "tiny"
        self.root.mkdir(parents=True)

    def offer(self, name: str, content: bytes) -> SdistSource:
        (self.root / name).write_bytes(content)
        (self.root / "index.html").write_text(f'<!DOCTYPE html><html><body><a href="{name}">{name}</a></body></html>')
        return SdistSource(name="tiny", version="1.0", sha256=hashlib.sha256(content).hexdigest())


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    index = Index(tmp_path)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_address[1]}/simple")
    for variable in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    yield index
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(("name", "pack"), [("tiny-1.0.tar.gz", sdist_tar), ("tiny-1.0.zip", sdist_zip)])
async def test_an_sdist_becomes_a_repository_with_all_of_its_files(
    local_provider: LocalProvider, index: Index, name: str, pack: object
) -> None:
    source = index.offer(name, pack())  # type: ignore[operator]
    prepared = await prepare(local_provider, SourceEnvironment(source=source, python=PYTHON))
    box = await local_provider.create(prepared.spec())
    try:
        assert (await output(box, "git ls-files")).splitlines() == sorted(FILES)
        assert await output(box, "git status --porcelain") == ""
        program = "import sys, tiny; print(tiny.answer, sys.prefix, sys.version_info[:2])"
        assert await output(box, f"python -c '{program}'") == f"42 /opt/venv {tuple(map(int, PYTHON.split('.')))}"
        assert await output(box, "ls -A /tmp") == "", "what the build needed is gone"
    finally:
        await box.close()


async def test_another_content_under_the_same_name_is_refused(local_provider: LocalProvider, index: Index) -> None:
    source = index.offer("tiny-1.0.tar.gz", sdist_tar())
    pinned = source.model_copy(update={"sha256": "0" * 64})
    with pytest.raises(BuildFailed, match="0000 ") as caught:
        await prepare(local_provider, SourceEnvironment(source=pinned, python=PYTHON))
    assert source.sha256 in str(caught.value)


async def test_an_sdist_that_the_index_lacks_says_so(local_provider: LocalProvider, index: Index) -> None:
    source = index.offer("tiny-1.0.tar.gz", sdist_tar()).model_copy(update={"version": "9.9"})
    with pytest.raises(BuildFailed, match=r"(?s)pip download.*9\.9.*index reachable"):
        await prepare(local_provider, SourceEnvironment(source=source, python=PYTHON))


async def test_a_pin_that_cannot_be_installed_fails_the_build(
    local_provider: LocalProvider, index: Index, tmp_path: Path
) -> None:
    source = DirectorySource(path=str(index.root))
    with pytest.raises(BuildFailed, match=r"(?s)pip install.*nosuchpackage"):
        await prepare(local_provider, SourceEnvironment(source=source, python=PYTHON, pip=("nosuchpackage==1.0",)))
