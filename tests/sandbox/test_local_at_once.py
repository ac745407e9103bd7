"""Many commands, threads and event loops at once on one provider."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import anyio
import pytest
from anyio import to_thread

from swe_sdk.errors import SnapshotBusy
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import Limits, SandboxSpec
from swe_sdk.sandbox.providers.local.box import LocalBox
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.leaks import processes_of
from tests.sandbox.boxes import create, ok

pytestmark = pytest.mark.anyio


async def test_a_hundred_commands_at_once_each_get_their_own_result(box: LocalBox) -> None:
    found: dict[int, ExecResult] = {}

    async def one(number: int) -> None:
        found[number] = await box.exec(f"sleep 0.0{number % 7}; echo {number}; exit {number}", timeout_s=60)

    async with anyio.create_task_group() as tasks:
        for number in range(100):
            tasks.start_soon(one, number)
    for number in range(100):
        assert (found[number].status, found[number].exit_code) == ("exited", number)
        assert found[number].stdout == f"{number}\n"


async def test_threads_that_start_at_the_same_moment_share_one_provider(local_provider: LocalProvider) -> None:
    """Each has an event loop of its own; the provider is opened by whoever is first."""
    for _round in range(3):
        provider = LocalProvider(local_provider.state)
        barrier, results = threading.Barrier(6), list[str]()
        work = partial(_use_a_box_in_a_loop_of_its_own, provider, barrier, results)
        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await to_thread.run_sync(thread.join)
        owners = [owner for owner in (provider.state / "owners").iterdir() if "owner" in owner.name]
        zygotes = [what for _pid, what in processes_of(str(provider.state)) if "zygote.main" in what]
        await provider.aclose()
        assert results == ["fine\n"] * 6
        assert len(owners) <= 2, "its own, and that of the provider of all tests"
        assert len(zygotes) <= 2


def _use_a_box_in_a_loop_of_its_own(provider: LocalProvider, barrier: threading.Barrier, results: list[str]) -> None:
    async def main() -> None:
        box = await create(provider)
        results.append(await ok(box, "echo $$ > /tmp/mine; sleep 0.02; echo fine"))
        await box.close()

    barrier.wait()
    anyio.run(main)


async def test_a_box_may_be_used_from_any_event_loop(provider: LocalProvider) -> None:
    def in_another_loop(call: Callable[[], object]) -> object:
        async def main() -> object:
            return await call()  # type: ignore[misc]

        return anyio.run(main)

    box = await create(provider)
    result = await to_thread.run_sync(in_another_loop, lambda: box.exec("echo from another loop"))
    assert result.stdout == "from another loop\n"  # type: ignore[attr-defined]
    snapshot = await to_thread.run_sync(in_another_loop, lambda: provider.snapshot(box))
    assert await ok(box, "echo here again") == "here again\n"
    await to_thread.run_sync(in_another_loop, box.close)
    assert await box.status() == "stopped"
    await provider.delete_snapshot(snapshot.id)  # type: ignore[attr-defined]


async def test_commands_go_on_around_a_snapshot(provider: LocalProvider) -> None:
    """A box is renewed when it is frozen; whoever calls it meanwhile must not be told that it died."""
    box, stop = await create(provider), False
    ran = 0

    async def keep_calling() -> None:
        nonlocal ran
        while not stop:
            assert await ok(box, "echo x >> /tmp/count; echo fine") == "fine\n"
            ran += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep_calling)
        frozen = tries = 0
        with anyio.move_on_after(60):
            while tries < 30 or not frozen:
                tries += 1
                try:
                    await provider.delete_snapshot((await provider.snapshot(box)).id)
                    frozen += 1
                except SnapshotBusy:
                    pass  # a command was just running
                await anyio.sleep(0.01)
        stop = True
    assert frozen
    assert len((await box.read("/tmp/count")).splitlines()) == ran
    await box.close()


async def test_a_tight_limit_of_open_files_leaves_room_for_commands_at_once(provider: LocalProvider) -> None:
    """The supervisor of a box shares the limit, and needs a few for each command."""
    box = await create(provider, SandboxSpec(workdir="/tmp", limits=Limits(open_files=64)))
    found: list[int | None] = []

    async def one(number: int) -> None:
        found.append((await box.exec(f"sleep 0.1; exit {number}")).exit_code)

    async with anyio.create_task_group() as tasks:
        for number in range(12):
            tasks.start_soon(one, number)
    assert set(found) == set(range(12))
    await box.close()
