"""How layers are packed where programs may make no user namespaces."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from swe_sdk.sandbox.providers.local import exporting

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("unshare", ["#!/bin/sh\necho Operation not permitted >&2; exit 1\n", None])
async def test_layers_are_packed_where_bubblewrap_alone_may_make_namespaces(
    unshare: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, layer, archive = tmp_path / "bin", tmp_path / "layer", tmp_path / "archive"
    programs.mkdir()
    layer.mkdir()
    (layer / "file").write_text("what was written")
    for name in ("tar", "sh"):
        (programs / name).symlink_to(f"/bin/{name}")
    if unshare is not None:
        (programs / "unshare").write_text(unshare)
        (programs / "unshare").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(exporting, "_ENV", {"PATH": str(programs), "LC_ALL": "C"})
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with archive.open("wb") as output:
        await exporting._tar([*exporting._PACK, f"--directory={layer}", "--file=-", "."], output=output)
    with tarfile.open(archive) as packed:
        assert "./file" in packed.getnames()
