"""Importing runs of other tools."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from swe_sdk.errors import InputError, did_you_mean
from swe_sdk.imports.mini_swe_agent import SUFFIX, read_mini_swe_agent, trajectories
from swe_sdk.imports.nemo_gym import read_nemo_gym
from swe_sdk.imports.record import Found, Imported, ImportedFile, Skipped
from swe_sdk.imports.swe_bench import instance_folders, read_swe_bench
from swe_sdk.model.record import Record
from swe_sdk.store import events as ev
from swe_sdk.store.layout import is_run
from swe_sdk.store.writer import RunWriter

READERS: Mapping[str, Callable[[Path], Found]] = {
    "nemo-gym": read_nemo_gym,
    "swe-bench": read_swe_bench,
    "mini-swe-agent": read_mini_swe_agent,
}
_NOT_GRADED = "not graded: the source has no verdict"


class ImportReport(Record):
    """What came of an import. ``skipped`` says of each thing that could not be read where it is, and why."""

    run_dir: Path
    format: str
    rollouts: int
    skipped: tuple[tuple[str, str], ...] = ()


def import_run(source: Path | str, run_dir: Path | str, *, format: str = "auto") -> ImportReport:
    """Make a run directory of what another tool has left, so that everything here can show it.

    Formats: ``nemo-gym`` (a JSONL file of rollouts), ``swe-bench`` (a folder of the official harness, at any height
    above the instances), ``mini-swe-agent`` (a ``*.traj.json``, or a folder of them). ``source`` is only read; its
    files are copied. Rollouts without a verdict end as *stopped*: they are in no mean.

    What cannot be read is left out, and named in the report. Raises ``InputError`` where there is nothing to import,
    the format is unknown, or ``run_dir`` holds a run already; ``NoSpace`` on a full disk.
    """
    source, run_dir = Path(source), Path(run_dir).absolute()
    name = detect_format(source) if format == "auto" else format
    if name not in READERS:
        raise InputError(f"unknown format {name!r}", remedy=did_you_mean(name, READERS))
    if is_run(run_dir):
        raise InputError(f"there is a run in {run_dir} already", remedy="import into a new directory")
    if not source.exists():
        raise InputError(f"there is no {source}")
    skipped: list[Skipped] = []
    with RunWriter(run_dir) as writer:
        writer.append(ev.RunStarted(name=source.name, source=name, config={"imported_from": str(source)}))
        count = _write_all(writer, READERS[name](source), skipped)
        writer.append(
            ev.RunEnded(reason="finished", message=f"imported; {len(skipped)} skipped" if skipped else "imported")
        )
    return ImportReport(run_dir=run_dir, format=name, rollouts=count, skipped=tuple(skipped))


def detect_format(source: Path) -> str:
    """The format of a file or folder; ``InputError`` where it is none of ours."""
    if source.is_dir():
        if trajectories(source):
            return "mini-swe-agent"
        if instance_folders(source):
            return "swe-bench"
    elif source.name.endswith(SUFFIX):
        return "mini-swe-agent"
    elif source.suffix == ".jsonl":
        return "nemo-gym"
    raise InputError(f"cannot tell what {source} is", remedy=f"name its format: {', '.join(READERS)}")


def _write_all(writer: RunWriter, found: Iterator[Imported | Skipped], skipped: list[Skipped]) -> int:
    samples: Counter[str] = Counter()
    taken: set[str] = set()
    for rollout in found:
        if isinstance(rollout, Skipped):
            skipped.append(rollout)
            continue
        sample = rollout.sample
        if sample is None or f"{rollout.instance_id}.{sample}" in taken:
            sample = samples[rollout.instance_id]
            while f"{rollout.instance_id}.{sample}" in taken:
                sample += 1
            samples[rollout.instance_id] = sample + 1
        taken.add(f"{rollout.instance_id}.{sample}")
        _write(writer, rollout, sample)
    return len(taken)


def _write(writer: RunWriter, rollout: Imported, sample: int) -> None:
    rollout_id = f"{rollout.instance_id}.{sample}"
    of: dict[str, Any] = {"rollout_id": rollout_id, "attempt": 1}
    started_at = rollout.started_at or time.time()
    ended_at = max(rollout.ended_at or started_at, started_at)
    writer.append(_queued(rollout, rollout_id, sample), at=started_at)
    writer.append(ev.AttemptStarted(**of), at=started_at)
    for stage, seconds in rollout.stages_s:
        if stage in get_args(ev.RolloutStage) and seconds >= 0:
            writer.append(ev.StageEnded(**of, stage=stage, seconds=seconds), at=started_at)
    for n, step in enumerate(rollout.steps):
        fields = {"step_kind": step.kind, "summary": step.summary, "data": step.data}
        tokens = {"tokens_in": step.tokens_in, "tokens_out": step.tokens_out}
        writer.append(ev.StepTaken(**of, n=n, **fields, **tokens), at=step.at or started_at)
    for file in rollout.files:
        _copy(writer, file, of)
    _end(writer, rollout, of, ended_at)


def _queued(rollout: Imported, rollout_id: str, sample: int) -> ev.RolloutQueued:
    return ev.RolloutQueued(
        rollout_id=rollout_id,
        instance_id=rollout.instance_id,
        sample=sample,
        family="" if rollout.outcome is None else rollout.outcome.family,
        agent=rollout.agent,
        agent_version=rollout.agent_version,
        model=rollout.model,
        tags=dict(rollout.tags),
    )


def _end(writer: RunWriter, rollout: Imported, of: dict[str, Any], at: float) -> None:
    outcome = rollout.outcome
    if outcome is not None:
        writer.append(ev.OutcomeReached(**of, outcome=outcome), at=at)
    writer.append(ev.AttemptEnded(**of, reason=rollout.end_reason), at=at)
    status: ev.FinalStatus = "stopped" if outcome is None else outcome.status
    reward = 0.0 if outcome is None else outcome.reward
    writer.append(ev.RolloutEnded(**of, status=status, reward=reward, reason="" if outcome else _NOT_GRADED), at=at)


def _copy(writer: RunWriter, file: ImportedFile, of: dict[str, Any]) -> None:
    if isinstance(file.content, bytes):
        writer.save(file.name, file.content, **of, role=file.role)
        return
    with writer.artifact(file.name, **of, role=file.role) as target, file.content.open("rb") as source:
        shutil.copyfileobj(source, target, 1 << 20)
