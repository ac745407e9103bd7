"""``swe.run(verifier=URL)`` against a real server: the same outcomes as in this process, and masks where it is gone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from swe_sdk import aio
from swe_sdk.agents import GoldAgent, ScriptedAgent
from swe_sdk.agents.contract import Agent
from swe_sdk.agents.scripted import Exec
from swe_sdk.model.outcome import Outcome
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.runs import execute
from swe_sdk.runs.remote_verifier import open_verifier
from swe_sdk.runs.run import Run
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.server.serving import ServerProcess, tiny_row

pytestmark = pytest.mark.anyio
SOLVES_THE_FIRST = ScriptedAgent(actions=(Exec(command='[ "$N" = 2 ] || sed -i "s/answer = 41/answer = 42/" src.txt'),))

RANDOM = ("log_nonce", "log_tail")
"""Evidence that differs between any two grades: the nonce of a log, and an end of it that shows it."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Two tasks: what solves the first fails the second, by a variable of its environment."""
    repo = tmp_path_factory.mktemp("far") / "repo"
    return [tiny_row(repo, "tiny__answer-1"), tiny_row(repo, "tiny__answer-2", env={"N": "2"})]


@pytest.fixture(scope="module")
def far_tasks(rows: list[dict[str, Any]]) -> TaskSet:
    return load_tasks(rows)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]) -> Iterator[ServerProcess]:
    """It has loaded the tasks, whose sources are folders that a request may not name."""
    server = ServerProcess(tmp_path_factory.mktemp("server"), rows=rows)
    yield server
    assert server.stop() == 0
    assert server.left() == []


@pytest.mark.parametrize(
    ("agent", "statuses"),
    [(GoldAgent(), ["resolved", "resolved"]), (SOLVES_THE_FIRST, ["resolved", "unresolved"])],
    ids=["gold", "scripted"],
)
async def test_outcomes_are_the_same_near_and_far(
    local_provider: LocalProvider,
    far_tasks: TaskSet,
    server: ServerProcess,
    tmp_path: Path,
    agent: Agent,
    statuses: list[str],
) -> None:
    near = await outcomes(await aio.run(far_tasks, agent, provider=local_provider, progress=False))
    far = await outcomes(await aio.run(far_tasks, agent, provider=local_provider, verifier=server.url, progress=False))
    assert [outcome.status for outcome in near] == statuses
    assert [verdict_of(outcome) for outcome in far] == [verdict_of(outcome) for outcome in near]
    assert all(outcome.evidence["verifier"]["url"] == server.url for outcome in far)


async def outcomes(run: Run) -> list[Outcome]:
    with run:
        return [outcome for rollout in run.rollouts.values() if (outcome := rollout.outcome) is not None]


def verdict_of(outcome: Outcome) -> dict[str, Any]:
    """All that says what a patch is worth; not where its files are, and how long it took."""
    told: dict[str, Any] = json.loads(outcome.model_dump_json())
    told["evidence"].pop("verifier", None)
    for field in ("artifacts", "timings_s", "key"):
        del told[field]
    for name in RANDOM:
        told["evidence"].pop(name, None)
    return told


async def test_a_verifier_that_is_gone_is_a_mask_and_the_rest_of_the_run_goes_on(
    local_provider: LocalProvider,
    far_tasks: TaskSet,
    rows: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed after the first verdict: the second rollout is masked, within its patience, and can be tried again."""
    monkeypatch.setattr(execute, "PATIENCE_S", 1.0)
    server = ServerProcess(tmp_path / "server", rows=rows)
    began = time.monotonic()
    run = await aio.run(
        far_tasks,
        "gold",
        provider=local_provider,
        verifier=server.url,
        limit=1,
        retries=0,
        path=tmp_path / "run",
        progress=False,
        on_result=lambda _: server.process.kill(),
    )
    assert time.monotonic() - began < 60
    server.stop()
    with run:
        assert [each.status for each in run.rollouts.values()] == ["resolved", "masked"]
        (masked,) = run.rollouts.where(status="masked").values()
        assert masked.mask is not None
        assert (masked.mask.kind, masked.mask.stage, masked.mask.retryable) == ("verifier_unreachable", "verify", True)
        assert "swe-sdk serve" in masked.mask.evidence["remedy"]
        assert run.metrics.mean_reward == 1.0
        assert b"answer = 42" in masked.patch.data, "the agent's work is not lost"
    second = ServerProcess(tmp_path / "server", rows=rows)
    try:
        with await aio.resume(
            tmp_path / "run", provider=local_provider, verifier=second.url, retry_masked=True, progress=False
        ) as again:
            assert [each.status for each in again.rollouts.values()] == ["resolved", "resolved"]
    finally:
        assert second.stop() == 0


async def test_the_deadline_of_a_verification_is_kept(
    local_provider: LocalProvider, far_tasks: TaskSet, tmp_path: Path
) -> None:
    """Somebody listens, takes the post, and never answers."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    url = f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"

    async def hold(client: anyio.abc.ByteStream) -> None:
        async with client:
            await anyio.sleep_forever()

    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, hold)
        with anyio.fail_after(20):
            run = await aio.run(
                far_tasks[:1],
                "gold",
                provider=local_provider,
                verifier=url,
                verify_timeout_s=2,
                retries=0,
                progress=False,
            )
        group.cancel_scope.cancel()
    with run:
        (rollout,) = run.rollouts.values()
        assert rollout.mask is not None
        assert rollout.mask.stage == "verify"
        assert rollout.mask.kind in ("verifier_unreachable", "timeout")


async def test_it_can_be_used_by_itself(far_tasks: TaskSet, server: ServerProcess) -> None:
    task = far_tasks[0]
    assert task.grading.wrong_patch is not None
    async with open_verifier(server.url) as verifier:
        outcome = await verifier.verify(task, task.grading.wrong_patch, deadline_s=60)
    assert outcome.status == "unresolved"
