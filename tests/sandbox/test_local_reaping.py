"""What a killed process leaves of local boxes can be listed and removed from outside, without touching live ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import SandboxError
from swe_sdk.sandbox.leases import LeaseBook
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.sandbox.reaper import OwnedBox, SupportsReaping, reap
from swe_sdk.sandbox.registry import restore_provider
from swe_sdk.testing import run_provider_suite
from tests.leaks import traces_of
from tests.sandbox.boxes import create, ok

pytestmark = pytest.mark.anyio

KILLED = """
import anyio, os, signal, sys
from swe_sdk.sandbox.contract import Limits, SandboxSpec
from swe_sdk.sandbox.providers.local.provider import LocalProvider

async def main():
    provider = LocalProvider(sys.argv[1])
    for _ in range(3):
        box = await provider.create(SandboxSpec(workdir="/tmp", limits=Limits(pids=100)))
        await box.exec("echo x > file; sleep 600 &")
    print(provider.store.owner, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main)
"""


def owner_killed_on(state: Path) -> str:
    """A process makes three boxes and is killed; the id of its owner."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(state)], capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    return done.stdout.strip()


async def test_only_what_the_dead_have_left_is_listed_and_removed(
    local_provider: LocalProvider, provider: LocalProvider, tmp_path: Path
) -> None:
    mine = await create(provider)
    other = LocalProvider(local_provider.state)
    siblings = await create(other)
    dead = owner_killed_on(provider.state)
    book = LeaseBook(tmp_path / "book")
    third = restore_provider("local", other.settings)
    assert isinstance(third, SupportsReaping)

    dry = await reap(book, [third], dry_run=True)
    boxes = [item for item in dry.items if item.handle and item.handle.startswith(f"{dead}/box-")]
    assert [item.action for item in boxes] == ["would_remove"] * 3
    assert dry.live >= 2
    assert not any(box.id in str(dry.items) for box in (mine, siblings))
    assert len(list((provider.state / "boxes" / dead).iterdir())) == 3, "a dry run changes nothing"
    assert not book.directory.exists()

    report = await reap(book, [third])
    assert {item.action for item in report.items} == {"removed"}
    assert len(report.items) >= 3
    assert not [name for names in traces_of(provider.state, dead).values() for name in names if dead in name]
    for box in (mine, siblings):
        assert await ok(box, "echo lives") == "lives\n"
        with pytest.raises(SandboxError, match="in use"):
            await third.remove(f"{box.path.parent.name}/{box.id}")
        await box.close()
    await third.remove("owner-1/box-1")
    await third.aclose()
    await other.aclose()


async def test_nothing_is_made_where_nothing_was(tmp_path: Path) -> None:
    provider = LocalProvider(tmp_path / "state")
    assert [box for box in await provider.owned() if box.description == "box"] == []
    report = await reap(LeaseBook(tmp_path / "book"), [], dry_run=True)
    assert (report.items, report.live) == ((), 0)
    assert list(tmp_path.iterdir()) == []


async def test_reapers_at_once(provider: LocalProvider, tmp_path: Path) -> None:
    owners = [owner_killed_on(provider.state) for _ in range(2)]
    reapers = [LocalProvider(provider.state) for _ in range(3)]
    book = LeaseBook(tmp_path / "book")
    async with anyio.create_task_group() as tasks:
        for each in reapers:
            tasks.start_soon(reap, book, [each])
    for each in reapers:
        await each.aclose()
    left = [name for names in traces_of(provider.state, *owners).values() for name in names]
    assert not [name for name in left if any(owner in name for owner in owners)]


class Forgetful(LocalProvider):
    """Lists nothing."""

    async def owned(self) -> list[OwnedBox]:
        return []


class Slanderous(LocalProvider):
    """Calls live owners dead."""

    async def owned(self) -> list[OwnedBox]:
        return [box.model_copy(update={"is_orphan": True}) for box in await super().owned()]


class Lazy(LocalProvider):
    """Removes nothing."""

    async def remove(self, handle: str) -> None:
        pass


@pytest.mark.parametrize(("broken", "failures"), [(Forgetful, 4), (Slanderous, 3), (Lazy, 2), (LocalProvider, 0)])
async def test_the_checks_of_reaping_can_fail(
    local_provider: LocalProvider, tmp_path: Path, broken: type[LocalProvider], failures: int
) -> None:
    provider = broken(tmp_path)
    report = await run_provider_suite(provider, select=["reaping"])
    await provider.aclose()
    assert len(report.failed) == failures, report
    assert len(report.passed) == 4 - failures
