"""``run(executor=...)``: one run directory, whoever works on it, and lost workers in its journals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import swe_sdk as swe
from swe_sdk.errors import InputError, NoSpace
from swe_sdk.executors.local import LocalExecutor
from swe_sdk.rollouts.result import RolloutResult
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.store.events import Event, RolloutEnded
from swe_sdk.store.writer import RunWriter
from tests.executors.lossy import LossyExecutor


def start(tasks: swe.TaskSet, executor: object, path: Path, **more: object) -> swe.Run:
    return swe.run(tasks, "gold", provider="local", executor=executor, path=path, progress=False, **more)  # type: ignore[arg-type]


def test_a_run_on_an_executor_is_a_run_like_any_other(tasks: swe.TaskSet, tmp_path: Path) -> None:
    heard: list[str] = []
    with start(tasks, LocalExecutor(slots=2), tmp_path / "run", on_result=lambda r: heard.append(r.rollout_id)) as run:
        assert run.finished
        assert run.row.counts == {"resolved": 3}
        assert (run.row.end_reason, run.row.alive) == ("finished", False)
        assert sorted(heard) == list(run.rollouts)
        rollout = run.rollouts["tiny__answer-1.0"]
        assert [stage.stage for stage in rollout.stages] == ["seed", "invoke_agent", "close_agent", "verify", "return"]
        assert "verify-1/test.log" in rollout.logs
        assert rollout.patch.exists
        assert len(list((run.path / "events").iterdir())) == 2, "a journal of ours, and one of the worker"
        assert run.plan is not None
        assert (run.plan.given, run.plan.config.executor) == (("executor",), "local")


def test_a_lost_rollout_is_a_masked_attempt_and_a_new_one(tasks: swe.TaskSet, tmp_path: Path) -> None:
    with start(tasks, LossyExecutor(1), tmp_path / "run") as run:
        assert run.row.counts == {"resolved": 3}
        (again,) = [each for each in run.rollouts.values() if each.attempt == 2]
        first, second = again.attempts
        assert first.mask_kind == "lost_worker"
        assert second.mask_kind is None
        assert [mask.mask.kind for mask in again.masks] == ["lost_worker"]


def test_one_that_was_over_when_its_worker_was_lost_is_attempted_anew(tasks: swe.TaskSet, tmp_path: Path) -> None:
    executor = LossyExecutor(1, when="after")
    with start(tasks, executor, tmp_path / "run") as run:
        assert run.row.counts == {"resolved": 3}
        (again,) = [each for each in run.rollouts.values() if each.attempt == 2]
        assert again.outcome is not None
        assert again.outcome.resolved
        assert [job.input["attempt"] for job in executor.jobs if job.id == again.id] == [1, 2]


def test_without_retries_it_is_masked_and_can_be_tried_again_later(tasks: swe.TaskSet, tmp_path: Path) -> None:
    with start(tasks, LossyExecutor(1), tmp_path / "run", retries=0) as run:
        assert run.finished
        assert run.row.counts == {"resolved": 2, "masked": 1}
        (masked,) = run.rollouts.where(status="masked").values()
        assert masked.mask is not None
        assert (masked.mask.kind, masked.mask.stage, masked.mask.retryable) == ("lost_worker", "seed", True)
        assert run.metrics.mean_reward == 1.0, "a mask is in no mean"
    with pytest.raises(InputError, match=r"executor=\.\.\."):
        swe.resume(run.path, retry_masked=True, progress=False)
    with swe.resume(run.path, retry_masked=True, progress=False, executor=LocalExecutor()) as run:
        assert run.row.counts == {"resolved": 3}
        assert run.rollouts[masked.id].attempt == 2


def test_the_executor_is_a_setting_of_the_run(tasks: swe.TaskSet, tmp_path: Path) -> None:
    with start(tasks, "local", tmp_path / "run") as run:
        assert run.plan is not None
        assert (run.config.executor, run.plan.given) == ("local", ())
    with pytest.raises(InputError, match="unknown executor 'cloud'"):
        start(tasks, "cloud", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_what_workers_cannot_have_is_refused_before_anything_is_made(tasks: swe.TaskSet, tmp_path: Path) -> None:
    here = tmp_path / "run"
    with pytest.raises(InputError, match="the provider of this run are objects"):
        swe.run(tasks, "gold", provider=LocalProvider(), executor=LocalExecutor(), path=here, progress=False)
    with pytest.raises(InputError, match="needs a model"):
        swe.run(tasks, "mini-swe-agent", provider="local", executor=LocalExecutor(), path=here, progress=False)
    model = swe.ModelEndpoint(base_url="http://127.0.0.1:1/v1", model="m", api_key="secret-key")
    with pytest.raises(InputError, match=r"set \$OPENAI_API_KEY"):
        start(tasks, LocalExecutor(), here, model=model)
    assert not here.exists()


def test_a_run_stops_at_its_deadline(tasks: swe.TaskSet, tmp_path: Path) -> None:
    with start(tasks, LocalExecutor(slots=1), tmp_path / "run", deadline_s=0.01) as run:
        assert run.row.end_reason == "stopped"
        assert not run.finished


@pytest.mark.parametrize(
    ("error", "why"), [(NoSpace("the disk is full"), "no_space"), (OSError(5, "Input/output error"), "unrecorded")]
)
def test_what_could_not_be_written_down_is_not_called_finished(
    tasks: swe.TaskSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, why: str
) -> None:
    """A lost worker's rollout, whose end did not reach the disk: whoever resumes the run finds it unfinished."""
    append = RunWriter.append_async

    async def fails(writer: RunWriter, event: Event, **more: Any) -> None:
        if isinstance(event, RolloutEnded) and event.status == "masked":
            raise error
        await append(writer, event, **more)

    monkeypatch.setattr(RunWriter, "append_async", fails)
    heard: list[RolloutResult] = []
    with start(tasks, LossyExecutor(1), tmp_path / "run", retries=0, on_result=heard.append) as run:
        assert (run.row.end_reason, run.row.message) == ("stopped", why)
        assert not run.finished
    (unrecorded,) = [each for each in heard if not each.is_recorded]
    assert unrecorded.outcome.masked
    assert unrecorded.outcome.evidence["unrecorded"]["mask"]["kind"] == "lost_worker"
    monkeypatch.undo()
    with swe.resume(run.path, progress=False, executor=LocalExecutor()) as run:
        assert run.row.counts == {"resolved": 3}
