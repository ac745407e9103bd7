"""Which file systems are on a network, and where indexes go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swe_sdk.errors import InputError
from swe_sdk.store import filesystem
from swe_sdk.store.filesystem import FileSystem, file_system, local_index_folder
from swe_sdk.store.index import open_index
from swe_sdk.store.index_files import index_file
from swe_sdk.store.writer import RunWriter

MOUNTS = r"""
21 1 254:0 / / rw shared:1 - ext4 /dev/vda rw
30 21 0:40 / /home rw shared:2 - nfs4 server:/home rw
31 30 0:41 / /home/fast rw - tmpfs tmpfs rw
32 21 0:42 / /mnt/with\040space rw - fuse.sshfs host: rw
33 21 0:43 / /scratch rw - lustre x@tcp:/x rw
34 33 0:44 / /scratch rw - xfs /dev/sdb rw
"""


@pytest.mark.parametrize(
    ("path", "kind", "network"),
    [
        ("/var/x", "ext4", False),
        ("/home", "nfs4", True),
        ("/home/me/runs/that/is/not", "nfs4", True),
        ("/home/fast/x", "tmpfs", False),
        ("/homely", "ext4", False),
        ("/mnt/with space/x", "fuse.sshfs", True),
        ("/scratch/x", "xfs", False),
    ],
)
def test_of_paths(path, kind, network):
    found = file_system(Path(path), MOUNTS)
    assert (found.type, found.is_network) == (kind, network)
    assert ("attribute cache" in found.promise) == network


def test_of_this_machine(tmp_path):
    assert file_system(tmp_path).type != "unknown"
    assert not file_system(Path("/proc")).is_network
    assert file_system(Path("/proc/self")).type == "proc"


def test_indexes_are_kept_on_a_local_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("SWE_SDK_INDEX", str(tmp_path / "ix"))
    assert local_index_folder() == tmp_path / "ix"
    monkeypatch.setattr(filesystem, "file_system", lambda _path: FileSystem(type="nfs", is_network=True))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    folder = local_index_folder()
    assert folder == tmp_path / f"swe_sdk-index-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    (tmp_path / "swe_sdk-index-12345").mkdir()
    with pytest.raises(InputError, match="another user"):
        local_index_folder()


def test_a_home_that_cannot_be_written_hides_no_run(tmp_path, monkeypatch):
    """As in many containers; whoever has named a folder hears that it will not do."""
    monkeypatch.delenv("SWE_SDK_INDEX")
    monkeypatch.setenv("SWE_SDK_STATE", str(tmp_path / "home" / "state"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    assert local_index_folder() == tmp_path / "home" / "state" / "index"
    monkeypatch.setattr(os, "access", lambda path, _mode: "home" not in str(path))
    assert local_index_folder() == tmp_path / f"swe_sdk-index-{os.getuid()}"
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("SWE_SDK_INDEX", str(tmp_path / "file"))
    with pytest.raises(InputError, match="cannot make the folder of indexes") as caught:
        local_index_folder()
    assert "SWE_SDK_INDEX" in caught.value.remedy


def test_an_index_that_cannot_be_made_says_what_to_do(tmp_path):
    RunWriter(tmp_path / "run").close()
    file = index_file(tmp_path / "run", tmp_path / "ix")
    file.mkdir()
    with pytest.raises(InputError, match="cannot use the index") as caught:
        open_index(tmp_path / "run", index_dir=tmp_path / "ix")
    assert "SWE_SDK_INDEX" in caught.value.remedy
