"""Copies of snapshots on shared storage: whole or not there, checked when they are used, and released."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from swe_sdk.checkpoint.snapshots.share import SnapshotShare, as_exporter
from swe_sdk.errors import CapabilityMissing, NoSpace, TransferFailed
from swe_sdk.sandbox.contract import Box, SandboxSpec, Snapshot
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing import FakeProvider
from tests.leaks import traces_of
from tests.shared import lacking

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
FILL = """
set -e
echo kept > kept; echo gone > gone; mkdir -p hidden; echo below > hidden/below
dd if=/dev/zero of=holes bs=1 count=1 seek=8M status=none; ln kept linked; ln -s kept pointing; mkfifo pipe
"""
CHANGE = (
    "set -e; rm gone; rm -r hidden; mkdir hidden; echo new > hidden/new; chmod 640 kept; mkdir closed; chmod 0 closed"
)
LOOK = """
stat -c '%n %f %h %u %y' kept linked pointing pipe holes closed hidden
stat -c %s kept holes; ls hidden; cat linked hidden/new; ls gone
"""


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[LocalProvider]:
    """The provider of another node of this machine."""
    provider = LocalProvider(tmp_path / "there")
    yield provider
    await provider.aclose()
    assert {what: names for what, names in traces_of(tmp_path / "there").items() if what != "owners"} == {}


async def filled(provider: LocalProvider) -> tuple[Box, Snapshot]:
    """A box on two layers, of which the upper one hides, changes and closes what is in the lower one."""
    box = await provider.create(SandboxSpec(workdir="/tmp"))
    assert (await box.exec(FILL)).exit_code == 0
    await provider.snapshot(box)
    changed = await box.exec(CHANGE)
    assert changed.exit_code == 0, changed.stderr
    return box, await provider.snapshot(box)


async def look(box: Box) -> str:
    return (await box.exec(LOOK)).stdout


async def test_a_copy_is_the_same_on_another_node(
    local_provider: LocalProvider, there: LocalProvider, tmp_path: Path
) -> None:
    share = SnapshotShare(tmp_path / "share", "series")
    box, snapshot = await filled(local_provider)
    copy = await share.copy(local_provider, snapshot.id, "here")
    assert share.find(snapshot.id) == copy
    expected = await look(box)
    await box.close()
    brought = await share.bring(there, copy, snapshot_id="snap-0123456789ab")
    assert [one.id for one in await there.snapshots()] == [brought.id]
    twin = await there.create(SandboxSpec(workdir="/tmp", snapshot=brought.id))
    assert await look(twin) == expected
    assert "below" not in expected
    await twin.close()
    await there.delete_snapshot(brought.id)


async def test_parts_are_copied_once_and_go_with_the_last_that_needs_them(
    local_provider: LocalProvider, tmp_path: Path
) -> None:
    share = SnapshotShare(tmp_path / "share", "series")
    box, first = await filled(local_provider)
    await share.copy(local_provider, first.id, "here")
    parts = {path: path.stat().st_mtime_ns for path in (share.folder / "parts").iterdir()}
    await box.exec("echo third > third")
    second = await local_provider.snapshot(box)
    await share.copy(local_provider, second.id, "here")
    assert {path: path.stat().st_mtime_ns for path in parts} == parts
    assert len(list((share.folder / "parts").iterdir())) == len(parts) + 1
    share.keep_only([first.id])
    assert set((share.folder / "parts").iterdir()) == set(parts)
    assert share.find(second.id) is None
    share.keep_only([])
    assert not share.folder.exists()
    await box.close()


@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
async def test_what_is_not_what_was_copied_is_never_used(
    local_provider: LocalProvider, there: LocalProvider, tmp_path: Path, damage: str
) -> None:
    share = SnapshotShare(tmp_path / "share", "series")
    box, snapshot = await filled(local_provider)
    await box.close()
    copy = await share.copy(local_provider, snapshot.id, "here")
    file = share.folder / "parts" / copy.parts[0].file
    data = file.read_bytes()
    file.unlink() if damage == "gone" else file.write_bytes(data[:-1024] if damage == "cut" else data[:-1] + b"!")
    with pytest.raises(TransferFailed):
        await share.bring(there, copy, snapshot_id="snap-0123456789ab")
    assert await there.snapshots() == []


async def test_a_snapshot_of_another_kind_of_user_is_refused(
    local_provider: LocalProvider, there: LocalProvider, tmp_path: Path
) -> None:
    share = SnapshotShare(tmp_path / "share", "series")
    box, snapshot = await filled(local_provider)
    await box.close()
    copy = await share.copy(local_provider, snapshot.id, "here")
    theirs = copy.model_copy(update={"facts": {**copy.facts, "first_id": 1234}})
    with pytest.raises(CapabilityMissing, match="users that boxes do not have here"):
        await share.bring(there, theirs, snapshot_id="snap-0123456789ab")


async def test_a_full_disk_is_told_and_leaves_nothing_half(local_provider: LocalProvider, tmp_path: Path) -> None:
    disk = tmp_path / "small"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "small", disk], check=False).returncode:
        lacking("a small disk cannot be mounted here")
    try:
        box = await local_provider.create(SandboxSpec(workdir="/tmp"))
        await box.exec("head -c 4M /dev/urandom > large")
        snapshot = await local_provider.snapshot(box)
        await box.close()
        share = SnapshotShare(disk, "series")
        with pytest.raises(NoSpace):
            await share.copy(local_provider, snapshot.id, "here")
        assert share.find(snapshot.id) is None
        assert list((share.folder / "parts").iterdir()) == []
    finally:
        subprocess.run(["umount", disk], check=True)


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from swe_sdk.checkpoint.snapshots.share import SnapshotShare
from swe_sdk.sandbox.providers.local.provider import LocalProvider

async def main(state, share, snapshot):
    provider = LocalProvider(state)
    real = provider.export_part
    async def cut(part, file):
        if any(Path(share, "series", "parts").glob("layer-*")):
            file.write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
        await real(part, file)
    provider.export_part = cut
    await SnapshotShare(Path(share), "series").copy(provider, snapshot, "here")

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_copy_goes_on_after_a_kill(local_provider: LocalProvider, tmp_path: Path) -> None:
    box, snapshot = await filled(local_provider)
    await box.close()
    share = SnapshotShare(tmp_path / "share", "series")
    command = [sys.executable, "-c", KILLED, str(local_provider.state), str(tmp_path / "share"), snapshot.id]
    root = Path(__file__).resolve().parents[2]
    assert subprocess.run(command, cwd=root, check=False).returncode == -signal.SIGKILL
    local_provider.store.sweep()
    assert share.find(snapshot.id) is None, "a half is no copy"
    whole = {path: path.stat().st_mtime_ns for path in (share.folder / "parts").glob("layer-*")}
    assert len(whole) == 1
    copy = await share.copy(local_provider, snapshot.id, "here")
    assert len(copy.parts) == 2
    assert {path: path.stat().st_mtime_ns for path in whole} == whole, "what was there is not copied again"
    share.keep_only([snapshot.id])
    assert sorted(path.name for path in (share.folder / "parts").iterdir()) == sorted(one.file for one in copy.parts)


def test_who_cannot_export_says_what_to_do() -> None:
    with pytest.raises(CapabilityMissing, match=r"fake cannot be copied.*leave snapshot_share out"):
        as_exporter(FakeProvider())
    assert os.name == "posix"
