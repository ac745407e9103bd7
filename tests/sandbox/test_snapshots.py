"""Snapshots of the local provider: sealed or copied, chained without end, and gone when nobody needs them."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import NoSpace, SandboxClosed, SnapshotBusy, SnapshotNotFound
from swe_sdk.sandbox.build import stop_everything
from swe_sdk.sandbox.contract import SandboxSpec, Snapshot
from swe_sdk.sandbox.providers.local import freezing
from swe_sdk.sandbox.providers.local.box import LocalBox
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.leaks import memory_folder, traces_of

pytestmark = pytest.mark.anyio

CLOCK = "i=0; while :; do i=$((i+1)); echo $i >> /data/clock; sleep 0.005; done > /dev/null 2>&1 &"
MIB = 1 << 20


@pytest.fixture
async def provider(local_provider: LocalProvider) -> AsyncIterator[LocalProvider]:
    """Its boxes are closed and its new snapshots deleted at the end; nothing else may be left."""
    before = {snapshot.id for snapshot in await local_provider.snapshots()}
    yield local_provider
    await tidy(local_provider, before)


async def tidy(provider: LocalProvider, keep: set[str]) -> None:
    for box in list(provider.boxes.values()):
        await box.close()
    for snapshot in await provider.snapshots():
        if snapshot.id not in keep:
            await provider.delete_snapshot(snapshot.id)
    left = traces_of(provider.state, "none")
    assert not left.keys() & {"boxes", "trash", "unused layers"}, left


async def make(provider: LocalProvider, snapshot: Snapshot | None = None) -> LocalBox:
    box = await provider.create(SandboxSpec(snapshot=snapshot and snapshot.id, workdir="/"))
    assert isinstance(box, LocalBox)
    return box


async def sh(box: LocalBox, command: str) -> str:
    result = await box.exec(command, timeout_s=60)
    assert result.ok, (command, result.summary, result.stderr)
    return result.stdout


def layers(provider: LocalProvider) -> set[str]:
    return set(os.listdir(provider.state / "layers"))


# -- with live processes ----------------------------------------------------------------------------------------------


async def test_a_paused_box_is_copied_and_goes_on(provider: LocalProvider) -> None:
    box = await make(provider)
    await sh(box, f"mkdir /data; {CLOCK}")
    await anyio.sleep(0.1)
    alive = {process.pid for process in await box.processes()}
    await box.pause()
    snapshot = await provider.snapshot(box)
    assert await box.status() == "paused"
    frozen = await box.read("/data/clock")
    await anyio.sleep(0.05)
    assert await box.read("/data/clock") == frozen, "it ran while it was copied"
    fork = await make(provider, snapshot)
    assert await fork.read("/data/clock") == frozen
    await box.resume()
    await anyio.sleep(0.1)
    assert {process.pid for process in await box.processes()} & alive, "the loop did not survive"
    numbers = [int(line) for line in (await box.read("/data/clock")).split()]
    assert numbers == list(range(1, len(numbers) + 1)), "a tick was lost"
    assert len(numbers) > len(frozen.split())
    assert await fork.processes() == []


async def test_a_busy_box_is_not_frozen_and_its_processes_are_named(provider: LocalProvider) -> None:
    box = await make(provider)
    await sh(box, "sleep 4321 > /dev/null 2>&1 & while ! pgrep -x sleep; do :; done")
    with pytest.raises(SnapshotBusy, match="sleep 4321") as caught:
        await provider.snapshot(box)
    assert caught.value.remedy == "pause it or stop them"
    await stop_everything(box)
    await sh(await make(provider, await provider.snapshot(box)), "true")


async def test_a_paused_box_without_processes_is_sealed_and_stays_paused(provider: LocalProvider) -> None:
    box = await make(provider)
    await sh(box, "echo x > /f")
    await box.pause()
    snapshot = await provider.snapshot(box)
    assert (await box.status(), len(box.chain)) == ("paused", 1)
    await box.resume()
    assert await sh(box, "cat /f") == await sh(await make(provider, snapshot), "cat /f") == "x\n"


async def test_what_a_program_has_closed_to_itself_is_copied_too(provider: LocalProvider) -> None:
    """Files that not even their owner may read; the provider of an ordinary user has no more power than he has."""
    box = await make(provider)
    await sh(
        box, "mkdir -p /data/closed; echo secret > /data/closed/f; chmod 0 /data/closed/f /data/closed; chmod 500 /"
    )
    await sh(box, "sleep 1000 > /dev/null 2>&1 &")
    await box.pause()
    fork = await make(provider, await provider.snapshot(box))
    script = "stat -c %a / /data/closed; chmod 700 /data/closed; stat -c %a /data/closed/f; chmod 600 /data/closed/f"
    assert await sh(fork, f"{script}; cat /data/closed/f") == "500\n0\n0\nsecret\n"
    sealed = await make(provider, await provider.snapshot(fork))
    assert await sh(sealed, "stat -c %a /; cat /data/closed/f") == "500\nsecret\n"


async def test_directories_may_be_nested_deep(provider: LocalProvider) -> None:
    box, depth = await make(provider), 1500
    descend = f"import os\nfor _ in range({depth}): os.path.isdir('d') or os.mkdir('d'); os.chdir('d')\n"
    await box.exec(["python3", "-c", f"{descend}open('bottom', 'w').write('x')"])
    await sh(box, "sleep 1000 > /dev/null 2>&1 &")
    await box.pause()
    fork = await make(provider, await provider.snapshot(box))
    read = await fork.exec(["python3", "-c", f"{descend}print(open('bottom').read())"])
    assert read.stdout == "x\n", read.stderr


async def test_a_copy_that_is_cancelled_leaves_nothing(provider: LocalProvider) -> None:
    box = await make(provider)
    await sh(box, "mkdir /data; for i in $(seq 3000); do echo $i > /data/$i; done; sleep 1000 > /dev/null 2>&1 &")
    await box.pause()
    before = layers(provider), await provider.snapshots()
    for delay_s in (0.0, 0.002, 0.01, 0.02, 0.04):
        with anyio.move_on_after(delay_s) as scope:
            await provider.snapshot(box)
        if scope.cancelled_caught:
            assert (layers(provider), await provider.snapshots()) == before
            assert os.listdir(box.path.parent) == [box.id]
    await box.resume()
    assert await sh(box, "ls /data | wc -l") == "3000\n"


async def test_a_box_that_is_closed_while_it_is_copied(provider: LocalProvider) -> None:
    box = await make(provider)
    await sh(box, "mkdir /data; for i in $(seq 3000); do echo $i > /data/$i; done; sleep 1000 > /dev/null 2>&1 &")
    await box.pause()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(box.close)
        with pytest.raises(SandboxClosed):
            await provider.snapshot(box)
    assert layers(provider) == set(await named(provider))


async def named(provider: LocalProvider) -> set[str]:
    return {layer for record in provider.store.snapshots() for layer in record.chain}


# -- chains -----------------------------------------------------------------------------------------------------------


async def test_two_hundred_snapshots_of_one_box(provider: LocalProvider) -> None:
    """Each holds what it should; chains stay short, and the last fork costs what the first did."""
    box, fork_s, depths, wanted = await make(provider), [], [], ""
    look = "cd /data; wc -l < log; tail -1 log; ls -d f* | wc -l; cat again/*; ls again /opt/x"
    await sh(box, "mkdir -p /data/again")
    for number in range(200):
        change = (
            f"cd /data; echo {number} >> log; echo {number} > f{number}; rm -f f{number - 5}; rm -r again; mkdir again;"
            f" echo {number} > again/{number}; rm -rf /opt/x; mkdir -p /opt/x/{number % 7}"
        )
        assert await sh(box, f"{look if wanted else ':'}; {change}") == wanted, number
        kept = min(5, number + 1)
        wanted = f"{number + 1}\n{number}\n{kept}\n{number}\n/opt/x:\n{number % 7}\n\nagain:\n{number}\n"
        snapshot = await provider.snapshot(box)
        depths.append(len(box.chain))
        if number % 10 == 9:
            begin = anyio.current_time()
            fork = await make(provider, snapshot)
            fork_s.append(anyio.current_time() - begin)
            assert await sh(fork, look) == wanted, number
            await fork.close()
    assert max(depths) == freezing.MAX_DEPTH, depths
    assert min(fork_s[-10:]) <= 1.5 * min(fork_s[:6]) + 0.002, fork_s


async def test_merging_a_chain_disturbs_nobody_who_stands_on_it(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freezing, "MAX_DEPTH", 4)
    box, forks = await make(provider), []
    for number in range(12):
        await sh(box, f"echo {number} > /f{number}; rm -f /f{number - 3}")
        snapshot = await provider.snapshot(box)
        forks.append(await make(provider, snapshot))
        await provider.delete_snapshot(snapshot.id)
    for number, fork in enumerate(forks):
        wanted = [f"/f{kept}" for kept in range(max(0, number - 2), number + 1)]
        assert (await sh(fork, "ls -v -d /f*")).split() == wanted
        assert await sh(fork, "cat $(ls -v /f*)") == "".join(f"{path[2:]}\n" for path in wanted)
    assert len(box.chain) <= 4


async def test_a_deep_chain_is_merged_once_for_many_copies(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A paused box stays mounted on the long chain, which it therefore keeps; its copies stand on the short one."""
    monkeypatch.setattr(freezing, "MAX_DEPTH", 4)
    box = await make(provider)
    for number in range(4):
        await sh(box, f"echo {number} > /f{number}")
        await provider.snapshot(box)
    mounted = box.chain
    await sh(box, "sleep 1000 > /dev/null 2>&1 &")
    await box.pause()
    first, second = await provider.snapshot(box), await provider.snapshot(box)
    chains = [provider.store.snapshot(snapshot.id).chain for snapshot in (first, second)]
    assert chains[0][1:] == chains[1][1:] == box.chain
    assert len(box.chain) == 3
    for snapshot in await provider.snapshots():
        await provider.delete_snapshot(snapshot.id)
    assert layers(provider) >= {*mounted, *box.chain}
    await box.resume()
    assert await sh(box, "cat /f*") == "0\n1\n2\n3\n"
    await box.close()
    assert not layers(provider) & {*mounted, *box.chain}


# -- garbage ----------------------------------------------------------------------------------------------------------


async def test_layers_go_with_the_last_who_needs_them(provider: LocalProvider) -> None:
    before = layers(provider)
    box = await make(provider)
    await sh(box, "echo 1 > /f")
    first = await provider.snapshot(box)
    await sh(box, "echo 2 > /f")
    second = await provider.snapshot(box)
    assert len(layers(provider) - before) == 2
    await provider.delete_snapshot(second.id)
    assert len(layers(provider) - before) == 2, "the box stands on it"
    fork = await make(provider, first)
    await provider.delete_snapshot(first.id)
    await box.close()
    assert len(layers(provider) - before) == 1, "the fork stands on the first"
    assert await sh(fork, "cat /f") == "1\n"
    await fork.close()
    assert layers(provider) == before
    with pytest.raises(SnapshotNotFound):
        await make(provider, first)


async def test_closing_a_box_whose_snapshot_is_kept_collects_nothing(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking for garbage takes longer the more snapshots there are; making and closing boxes must not."""
    box = await make(provider)
    await sh(box, "echo 1 > /f")
    fork = await make(provider, await provider.snapshot(box))

    def collect() -> None:
        raise AssertionError("looked for garbage")

    with monkeypatch.context() as patch:
        patch.setattr(provider.store, "collect", collect)
        await fork.close()
        await box.close()


# -- full disks -------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 24 MiB."""
    with tempfile.TemporaryDirectory(prefix="swe_sdk-small-", dir=memory_folder()) as folder:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", folder], capture_output=True)
        if mounted.returncode != 0:
            pytest.skip("this user may not mount a file system")
        yield Path(folder)
        subprocess.run(["umount", "-l", folder], check=True)


async def test_a_copy_on_a_full_disk_leaves_nothing(small_disk: Path) -> None:
    provider = LocalProvider(small_disk / "state")
    try:
        box = await make(provider)
        await sh(box, "mkdir /data; head -c 15000000 /dev/urandom > /data/f; sleep 1000 > /dev/null 2>&1 &")
        await box.pause()
        before = os.statvfs(small_disk).f_bavail
        with pytest.raises(NoSpace):
            await provider.snapshot(box)
        assert os.statvfs(small_disk).f_bavail >= before - 8
        assert (layers(provider), await provider.snapshots()) == (set(), [])
        assert os.listdir(box.path.parent) == [box.id]
        await box.resume()
        assert await sh(box, "rm /data/f; echo works > /data/g; cat /data/g") == "works\n"
        await stop_everything(box)
        await sh(await make(provider, await provider.snapshot(box)), "cat /data/g")
    finally:
        await tidy(provider, set())
        await provider.aclose()


async def test_a_box_that_cannot_be_sealed_goes_on(provider: LocalProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever step fails, the box keeps what it has written, and the next snapshot works."""
    box = await make(provider)
    for step in ("seal", "publish"):
        await sh(box, f"echo {step} > /{step}")

        def fail(*_arguments: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(provider.store, step, fail)
            with pytest.raises(NoSpace):
                await provider.snapshot(box)
        assert await sh(box, f"cat /{step}") == f"{step}\n"
    fork = await make(provider, await provider.snapshot(box))
    assert await sh(fork, "cat /seal /publish") == "seal\npublish\n"
