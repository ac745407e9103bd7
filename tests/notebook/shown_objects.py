"""One of each object that shows itself, with a given text wherever a box, an agent or a data set may write one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from swe_sdk.checkup import Checkup
from swe_sdk.grading.health import Health, TaskHealth
from swe_sdk.grading.outcomes import Outcomes
from swe_sdk.grading.regrades import Regrade, Regrades
from swe_sdk.metrics.comparison import Comparison, TaskPair
from swe_sdk.model.budget import Budget
from swe_sdk.model.environment import GitSource, ImageEnvironment, SourceEnvironment
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.outcome import Mask, Outcome, PatchReport, TestReport
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import GradingSpec, Task
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.runs.checkpoints.view import Checkpoint
from swe_sdk.runs.run import Run
from swe_sdk.sandbox.contract import Limits, ProviderHealth, SandboxSpec, Snapshot
from swe_sdk.sandbox.sandbox import Sandbox
from swe_sdk.store import events as ev
from swe_sdk.store.checkpoints import Details, Saved
from swe_sdk.store.writer import RunWriter

START = 1_700_000_000.0
CHECKPOINT = "checkpoint-000001-abcdef"


def patch(text: str, files: int = 2) -> Patch:
    """A diff whose names and lines are the text."""
    flat = text.replace("\n", " ")
    parts = [
        f"diff --git a/{flat}{n} b/{flat}{n}\nindex 1..2 100644\n--- a/{flat}{n}\n+++ b/{flat}{n}\n"
        f"@@ -1,2 +1,2 @@ {flat}\n {flat}\n-{flat}\n+{flat}\n"
        for n in range(files)
    ]
    return Patch.of("".join(parts).encode("utf-8", "replace"))


def task(text: str, **changes: Any) -> Task:
    environment = SourceEnvironment(
        source=GitSource(url=text, commit=text), python=text, pip=(text,), install=(text,), tools=(text,)
    )
    return Task(
        instance_id=text,
        family=text,
        repo=text,
        problem_statement=text,
        hints=text,
        base_commit=text,
        version=text,
        created_at=text,
        environment=changes.pop("environment", environment),
        metadata={text: text},
        grading=GradingSpec(test_command="true", parser="pytest", fail_to_pass=(text,)),
    )


def outcome(text: str, status: str = "unresolved", tests: int = 1) -> Outcome:
    mask = Mask(kind="sandbox_lost", stage="tests", reason=text, evidence={text: f"{text}\n{text}", "remedy": text})
    reports = {f"{text}{n}": text for n in range(tests)}
    return Outcome(
        instance_id=text,
        family=text,
        status=status,  # type: ignore[arg-type]
        reward=0.0,
        mask=mask if status == "masked" else None,
        tests=TestReport(fail_to_pass=reports, pass_to_pass={f"{name}p": "PASSED" for name in reports}),
        patch=PatchReport(exists=True, applied=True, rung=text, sha256=text),
        reason=text,
        flags=(text,),
        evidence={text: {text: [text]}, "output": f"{text}\n{text}"},
        timings_s={text: 1.0, "tests": 2.0, "total": 3.0},
        artifacts={text: text},
        provider=text,
        key=text,
    )


def result(text: str) -> ExecResult:
    data = text.encode("utf-8", "replace")
    return ExecResult(status="exited", exit_code=1, stdout_bytes=data, stderr_bytes=data, output_file=text)


def health(text: str) -> Health:
    bad = TaskHealth(instance_id=text, status="unhealthy", problems=(text,), flaky=(text,), runs={"gold": (text,)})
    masked = TaskHealth(instance_id=f"{text}2", status="unknown", mask=text, missing_tool=text)
    return Health([bad, masked], path=Path("/", text.replace("\0", "")))


def checkup(text: str) -> Checkup:
    bad = ProviderHealth(provider=text, works=False, reason=text, remedy=text)
    good = ProviderHealth(provider=f"{text}2", works=True, details={text: text})
    return Checkup(providers=(bad, good), python=text, state_dir=text, results_dir=text)


class OpenBox:
    """A box that is there to be looked at."""

    def __init__(self, text: str) -> None:
        self.id = text
        plain = text.replace("\0", "")
        env = {plain.replace("=", "_") or "A": plain}
        self.spec = SandboxSpec(image=text, snapshot=text, workdir=f"/{plain}", env=env)


def sandbox(text: str) -> Sandbox:
    box = Sandbox(ImageEnvironment(image=text), provider=text, limits=Limits(pids=3))
    box._box = OpenBox(text)  # type: ignore[assignment]
    return box


def write_run(path: Path, text: str) -> None:
    """A run all of whose texts are the text."""
    of: dict[str, Any] = {"rollout_id": text, "attempt": 1}
    again: dict[str, Any] = {"rollout_id": text, "attempt": 2}
    checkpoint = {"checkpoint_id": CHECKPOINT}
    told: list[ev.Event] = [
        ev.RunStarted(name=text, agent=text, model=text, dataset=text, source=text, tags={text: text}),
        ev.RolloutQueued(rollout_id=text, instance_id=text, family=text, repo=text, agent=text, model=text),
        ev.AttemptStarted(**of, provider=text),
        ev.StageStarted(**of, stage="seed"),
        ev.StageEnded(**of, stage="seed", seconds=1.0, ok=False, message=text),
        ev.AttemptMasked(**of, mask=Mask(kind="create_failed", stage="seed", reason=text, evidence={text: text})),
        ev.AttemptEnded(**of, reason="create_failed", message=text, will_retry=True),
        ev.AttemptStarted(**again, provider=text),
        ev.StageStarted(**again, stage="invoke_agent"),
        ev.StepTaken(**again, n=1, step_kind="action", summary=text, seconds=1.0, data={text: text}),
        ev.ModelCalled(**again, call_id=text, model=text, route=text, error=text, request=text, response=text),
        ev.StageEnded(**again, stage="invoke_agent", seconds=2.0, message=text),
        ev.BudgetCharged(**again, budget=Budget(total_s=60, spent_s=10, parked_s=5)),
        ev.OutcomeReached(**again, outcome=outcome(text, "masked")),
        ev.AttemptEnded(**again, reason="done", message=text),
        ev.RolloutEnded(**again, status="masked", reward=0.0, reason=text),
        ev.SnapshotTaken(**checkpoint, snapshot_id=text, rollout_id=text, attempt=1, provider=text, size_bytes=9),
        ev.CheckpointSaved(**checkpoint, path=text, records=1, snapshots=1, size_bytes=2048),
        ev.CheckpointRollout(**checkpoint, **of, held="restart", boundary=text, reason=text),
        ev.SnapshotReleased(snapshot_id=text, reason=text),
    ]
    with RunWriter(path, sync=False) as writer:
        for number, event in enumerate(told):
            writer.append(event, at=START + number)
        (path / "artifacts").mkdir(exist_ok=True)
        (path / "artifacts" / "said.log").write_text(text, errors="replace")
        written = ev.ArtifactWritten(
            rollout_id=text, attempt=2, name="said.log", role="log", path="artifacts/said.log", size_bytes=len(text)
        )
        writer.append(written, at=START + 50)
        writer.append(ev.RunEnded(reason="failed", message=text), at=START + 60)


def plain_objects(text: str) -> dict[str, Any]:
    """Those that need no run."""
    masked = outcome(text, "masked")
    assert masked.mask is not None
    regrade = Regrade(name=text, before=outcome(text), after=outcome(text, "masked"))
    return {
        "Comparison": Comparison([TaskPair(instance_id=text, a=(1, 0, 0), b=(0, 1, 0))], a=text, b=text),
        "Checkup": checkup(text),
        "Budget": Budget(total_s=10, spent_s=20, parked_s=1),
        "ExecResult": result(text),
        "Health": health(text),
        "Mask": masked.mask,
        "Outcome": outcome(text),
        "Outcome, masked": masked,
        "Outcomes": Outcomes([outcome(text), masked], skipped=[text]),
        "Patch": patch(text),
        "Patch, malformed": Patch.of(text.encode("utf-8", "replace")),
        "Regrade": regrade,
        "Regrades": Regrades([regrade], skipped={text: text}),
        "Sandbox": sandbox(text),
        "Sandbox, closed": Sandbox(provider=text),
        "Snapshot": Snapshot(id=text, provider=text, created_at=START),
        "Task": task(text),
        "Task of an image": task(text, environment=ImageEnvironment(image=text, base=text)),
        "TaskHealth": health(text)[0],
        "TaskSet": TaskSet([task(text)], name=text),
    }


@contextmanager
def objects(text: str, folder: Path) -> Iterator[dict[str, Any]]:
    """All of them; those of a run are open while the block runs."""
    write_run(folder / "run", text)
    with Run(folder / "run") as run:
        saved = Saved(checkpoint_id=text, path=text, status="complete", details=Details(number=1, created_at=START))
        rollout = run.rollouts[text]
        yield {
            **plain_objects(text),
            "Run": run,
            "Rollouts": run.rollouts,
            "Rollout": rollout,
            "StepRow": rollout.steps[0],
            "StepRow, lost": rollout.steps[0].model_copy(update={"step": None}),
            "ModelCallRow": rollout.model_calls[0],
            "ModelCallRow, lost": rollout.model_calls[0].model_copy(update={"call": None}),
            "Log": rollout.log("said.log"),
            "Checkpoint": Checkpoint(saved.model_copy(update={"checkpoint_id": CHECKPOINT}), run._index),
            "Checkpoint, unknown": Checkpoint(saved, run._index),
            "Checkpoints": run.checkpoints,
            "Snapshots": run.snapshots,
        }
