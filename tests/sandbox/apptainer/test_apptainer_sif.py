"""What is read from .sif files."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.sandbox.providers.apptainer.sif import belongs_to_root, file_system_offset
from tests.sandbox.apptainer.images import build, busybox_sif, debian_sif, furnish
from tests.shared import need_program

_HEADERS = 40_000
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of others")


def test_an_image_of_roots_is_told_from_others() -> None:
    assert belongs_to_root(debian_sif())
    assert not belongs_to_root(busybox_sif())


@needs_root
def test_files_that_all_belong_to_one_other_user_are_not_roots(tmp_path: Path) -> None:
    need_program("mksquashfs")
    (tmp_path / "root").mkdir()
    (tmp_path / "root/file").write_text("x")
    for owner in (0, 1234):
        for path in (tmp_path / "root", tmp_path / "root/file"):
            os.chown(path, owner, owner)
        target = tmp_path / f"{owner}.sqsh"
        subprocess.run(["mksquashfs", tmp_path / "root", target, "-quiet"], check=True, capture_output=True)
        assert file_system_offset(target) == 0, "a squashfs is no .sif file"
        assert belongs_to_root(target) == (owner == 0)


def test_the_file_system_is_where_a_sif_file_says(tmp_path: Path) -> None:
    furnish(tmp_path / "root")
    build(tmp_path / "image.sif", tmp_path / "root", all_root=True)
    offset = file_system_offset(tmp_path / "image.sif")
    assert (tmp_path / "image.sif").read_bytes()[offset : offset + 4] == b"hsqs"


@given(st.data())
def test_a_damaged_file_is_nobodys(data: st.DataObject) -> None:
    with debian_sif().open("rb") as file:
        whole = file.read(_HEADERS)
    length = data.draw(st.integers(0, len(whole)))
    damaged = bytearray(whole[:length])
    for _ in range(data.draw(st.integers(0, 8)) if length else 0):
        damaged[data.draw(st.integers(0, length - 1))] = data.draw(st.integers(0, 255))
    with tempfile.NamedTemporaryFile() as file:
        file.write(damaged)
        file.flush()
        assert belongs_to_root(Path(file.name)) in (True, False)


def test_what_is_no_image_belongs_to_nobody(tmp_path: Path) -> None:
    for content in (b"", b"hsqs", b"x" * 5000):
        (tmp_path / "file").write_bytes(content)
        assert not belongs_to_root(tmp_path / "file")
    assert not belongs_to_root(tmp_path / "missing")
    assert not belongs_to_root(tmp_path)
