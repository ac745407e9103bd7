"""Which file systems are on a network, and where indexes go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swe_sdk.errors import InputError
from swe_sdk.store import filesystem
from swe_sdk.store.filesystem import FileSystem, file_system, local_index_folder

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
