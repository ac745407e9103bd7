"""A server of four workers under load: saved, killed with all that belongs to it, restored, and gone on with."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx
import pytest

from tests.server.control.by_the_table import PREFIX, Trainer
from tests.server.control.fleet import TOKEN, Fleet, Rollouts

ROLLOUTS, STEPS, PACE_S = 16, 24, 0.25


@pytest.fixture
def lives() -> Iterator[list[Fleet]]:
    found: list[Fleet] = []
    yield found
    for fleet in found:
        fleet.kill()


def test_no_step_is_lost_and_none_is_done_twice(tmp_path: Path, lives: list[Fleet]) -> None:
    """Driven by a client that was written from the table of routes alone."""
    newest: list[str] = []

    async def first_life(rollouts: Rollouts) -> None:
        fleet = Fleet(tmp_path)
        lives.append(fleet)
        async with Trainer(fleet.urls, TOKEN, tmp_path) as trainer, anyio.create_task_group() as tasks:
            for name in rollouts.names:
                tasks.start_soon(rollouts.run, fleet, name)
            await save_some(trainer, "c1", rollouts)
            await anyio.sleep(0.5)
            await save_some(trainer, "c2", rollouts)
            await anyio.sleep(0.4)
            fleet.kill()

    async def save_some(trainer: Trainer, checkpoint: str, rollouts: Rollouts) -> None:
        """A busy machine takes a while to begin anything."""
        tries = 0
        while not await trainer.save(f"{checkpoint}.{tries}" if tries else checkpoint):
            assert (rollouts.refusals, rollouts.results) == ([], {})
            tries += 1
            await anyio.sleep(0.2)
        newest.append(f"{checkpoint}.{tries}" if tries else checkpoint)

    async def second_life(rollouts: Rollouts) -> None:
        fleet = Fleet(tmp_path)
        lives.append(fleet)
        async with Trainer(fleet.urls, TOKEN, tmp_path) as trainer:
            restored = await go_on(fleet, trainer, rollouts)
        for name in restored:
            assert rollouts.results[name]["restored_from"] > 0, "its budget was forgotten"
        assert restored
        fleet.stop()
        assert "Traceback" not in fleet.said()

    async def go_on(fleet: Fleet, trainer: Trainer, rollouts: Rollouts) -> set[str]:
        held = {one["rollout_id"]: one for one in await trainer.restore(newest[-1])}
        over = [one for name, one in held.items() if name in rollouts.results]
        if over:
            await trainer.retire(over)
        restored = set(held) - set(rollouts.results)
        async with anyio.create_task_group() as tasks:
            for name in rollouts.left:
                tasks.start_soon(rollouts.run, fleet, name)
            await anyio.sleep(0.3)
            await trainer.save("c3")
            await rollouts.all_done(60)
        return restored

    async def main() -> Rollouts:
        rollouts = Rollouts([f"r{number}" for number in range(ROLLOUTS)], steps=STEPS, pace_s=PACE_S)
        await first_life(rollouts)
        await second_life(rollouts)
        return rollouts

    rollouts = anyio.run(main)
    assert rollouts.refusals == []
    assert {name: result["log"] for name, result in rollouts.results.items()} == {
        name: list(range(1, STEPS + 1)) for name in rollouts.names
    }


def test_rollouts_that_come_while_a_checkpoint_is_open_are_let_in_after_it(tmp_path: Path, lives: list[Fleet]) -> None:
    """A busy machine may begin rollouts only when the next save has closed admission already."""

    async def main() -> Rollouts:
        fleet = Fleet(tmp_path, {"environment": 2, "agent": 1, "resources": 1})
        lives.append(fleet)
        rollouts = Rollouts([f"r{number}" for number in range(4)], steps=2, pace_s=0.01)
        async with Trainer(fleet.urls, TOKEN, tmp_path) as trainer, anyio.create_task_group() as tasks:
            await trainer.post("environment", "prepare", "c1")
            for name in rollouts.names:
                tasks.start_soon(rollouts.run, fleet, name)
            with anyio.fail_after(30):
                while rollouts.turned_away != set(rollouts.names):
                    assert rollouts.refusals == []
                    await anyio.sleep(0.01)
            assert rollouts.results == {}
            await trainer.post("environment", "resume", "c1")
            await rollouts.all_done(30)
        fleet.stop()
        return rollouts

    rollouts = anyio.run(main)
    assert rollouts.refusals == []
    assert {result["log"][-1] for result in rollouts.results.values()} == {2}


def test_a_worker_that_is_killed_is_replaced_and_its_loss_is_said(tmp_path: Path, lives: list[Fleet]) -> None:
    async def main() -> None:
        fleet = Fleet(tmp_path, {"resources": 2})
        lives.append(fleet)
        url, headers = fleet.urls["resources"], {"Authorization": f"Bearer {TOKEN}"}
        body = {"session": "s", "episode": {"rollout_id": "r"}, "lines": [1]}
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            assert (await client.post("/append", json=body)).json() == [1]
            for _ in range(8):  # by the cookie, whichever worker is met
                async with httpx.AsyncClient(base_url=url, cookies=client.cookies) as other:
                    assert (await other.post("/append", json={**body, "lines": []})).json() == [1]
            (cookie,) = client.cookies.values()
            owner = int(cookie.split("-")[1])
            assert owner in fleet.workers("resources")
            os.kill(owner, signal.SIGKILL)
            with anyio.fail_after(60):
                while True:
                    status = await other_status(url, headers)
                    if status["extras"]["workers"] == 2 and owner not in fleet.workers("resources"):
                        break
                    await anyio.sleep(0.1)
            gone = await client.post("/append", json=body)
            assert (gone.status_code, gone.json()["error"]["code"]) == (410, "session_lost")
        fleet.stop()

    async def other_status(url: str, headers: dict[str, str]) -> dict[str, dict[str, int]]:
        async with httpx.AsyncClient(base_url=url, headers=headers) as client:
            try:
                found: dict[str, dict[str, int]] = (await client.get(f"{PREFIX}/status")).json()
                return found
            except httpx.TransportError:
                return {"extras": {"workers": 0}}

    anyio.run(main)
