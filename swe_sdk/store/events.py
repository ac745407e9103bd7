"""What happens in a run, as typed events: one line of a journal each.

The journals are the truth about a run; all else (the index, counts, pages, plots) is made from them. A line is
``{"v": SCHEMA, "n": number in its file, "t": Unix seconds, "event": {"kind": ..., ...}}``. :class:`RunWriter
<swe_sdk.store.writer.RunWriter>` adds the first three.

A rollout is named by ``rollout_id`` (``<instance id>.<sample>``), a try at it by ``attempt``, which counts from 1. For
whatever is written more than once about the same thing (a budget, an outcome), the newest wins: that of the higher
``t``, and of ends of a rollout that of the higher attempt. Large things are no part of an event: they are artifacts,
and ``artifact`` events say where they lie.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from swe_sdk.model.budget import Budget
from swe_sdk.model.outcome import Mask, Outcome
from swe_sdk.model.record import Record
from swe_sdk.sandbox.owner import Owner

SCHEMA = 1
"""Version of the lines. It grows whenever a field is added, renamed or means something else."""

RolloutStage = Literal["seed", "invoke_agent", "close_agent", "verify", "return"]
FinalStatus = Literal["resolved", "unresolved", "masked", "stopped"]
"""How a rollout ended: graded, masked, or *stopped* by its user before there was anything to grade."""
StepKind = Literal["model", "action", "message", "note"]
ArtifactRole = Literal["patch", "log", "transcript", "model_call", "outcome", "other"]
Encoding = Literal["identity", "gzip"]

_Seconds = Annotated[float, Field(ge=0)]
_Count = Annotated[int, Field(ge=0, le=2**53)]
_Attempt = Annotated[int, Field(ge=1, le=2**31)]
_Measured = Annotated[_Count | None, BeforeValidator(lambda value: value or None)]
"""None where nobody has measured it; older journals have 0 for that."""


class Event(Record):
    """Base of all events. Their numbers are finite: JSON has no others."""

    model_config = ConfigDict(allow_inf_nan=False)

    kind: str
    durable: ClassVar[bool] = False
    """Whether it is synced to the disk before ``RunWriter.append`` returns, so that it survives a crash of the machine.
    All others survive the death of the process alone."""


class _OfRollout(Event):
    rollout_id: str = Field(min_length=1)


class _OfAttempt(_OfRollout):
    attempt: _Attempt


# -- the run ---------------------------------------------------------------------------------------------------------


class WriterOpened(Event):
    """First line of each journal: which process writes it. Written by the RunWriter itself."""

    kind: Literal["writer_opened"] = "writer_opened"
    owner: Owner
    sdk_version: str = ""


class WriterClosed(Event):
    """Last line of a journal that was closed in order."""

    kind: Literal["writer_closed"] = "writer_closed"


class RunStarted(Event):
    """A run begins, or goes on in another process (``resumed``). ``config`` is the whole resolved configuration."""

    kind: Literal["run_started"] = "run_started"
    durable: ClassVar[bool] = True
    name: str = ""
    resumed: bool = False
    rollouts: _Count | None = None
    """How many rollouts there will be, where that is known."""
    agent: str = ""
    model: str = ""
    dataset: str = ""
    source: str = "swe_sdk"
    """Who made it: ``swe_sdk``, or the format that it was imported from."""
    config: dict[str, Any] = Field(default_factory=dict)
    tags: dict[str, str] = Field(default_factory=dict)


class RunEnded(Event):
    """Nothing more is going to happen, unless the run is resumed."""

    kind: Literal["run_ended"] = "run_ended"
    durable: ClassVar[bool] = True
    reason: Literal["finished", "stopped", "failed"]
    message: str = ""


# -- rollouts and their attempts -------------------------------------------------------------------------------------


class RolloutQueued(_OfRollout):
    """There is to be such a rollout."""

    kind: Literal["rollout_queued"] = "rollout_queued"
    instance_id: str
    sample: _Count = 0
    family: str = ""
    repo: str = ""
    agent: str = ""
    agent_version: str = ""
    model: str = ""
    provider: str = ""
    tags: dict[str, str] = Field(default_factory=dict)


class AttemptStarted(_OfAttempt):
    """Work on a rollout begins. What is known of earlier attempts stays."""

    kind: Literal["attempt_started"] = "attempt_started"
    provider: str = ""
    restored_from: str | None = None
    """Id of the checkpoint that it continues from; None = from the start."""
    boundary: str | None = None
    """Where in the rollout it continues."""
    restart_reason: str = ""
    """Why it starts over, though a checkpoint holds it; empty = none does, or it goes on from that."""


class AttemptEnded(_OfAttempt):
    """The work is over: ``reason`` is the agent's end (``done``, ``step_limit``, ...) or a kind of failure."""

    kind: Literal["attempt_ended"] = "attempt_ended"
    reason: str
    message: str = ""
    exit_code: int | None = Field(default=None, ge=-(2**53), le=2**53)
    will_retry: bool = False


class RolloutEnded(_OfAttempt):
    """The rollout is over, and ``attempt`` the one that counts."""

    kind: Literal["rollout_ended"] = "rollout_ended"
    durable: ClassVar[bool] = True
    status: FinalStatus
    reward: float = 0.0
    reason: str = ""


class RolloutParked(_OfAttempt):
    """It is held for a checkpoint, and no time is charged to it."""

    kind: Literal["rollout_parked"] = "rollout_parked"
    checkpoint_id: str = ""


class RolloutUnparked(_OfAttempt):
    """It goes on after it was parked."""

    kind: Literal["rollout_unparked"] = "rollout_unparked"
    checkpoint_id: str = ""


class StageStarted(_OfAttempt):
    """A stage of an attempt begins."""

    kind: Literal["stage_started"] = "stage_started"
    stage: RolloutStage


class StageEnded(_OfAttempt):
    """A stage is over, after ``seconds`` of work: time for which it was parked is left out."""

    kind: Literal["stage_ended"] = "stage_ended"
    stage: RolloutStage
    seconds: _Seconds
    ok: bool = True
    message: str = ""


class StepTaken(_OfAttempt):
    """One step of an agent: small. ``data`` holds what a reader wants to see at once; the rest is in the transcript."""

    kind: Literal["step"] = "step"
    n: _Count
    step_kind: StepKind
    summary: str = ""
    seconds: _Seconds = 0.0
    tokens_in: _Count = 0
    tokens_out: _Count = 0
    data: dict[str, Any] = Field(default_factory=dict)


class ModelCalled(_OfAttempt):
    """One call of a model, as the gateway saw it. ``request`` and ``response`` are paths of artifacts."""

    kind: Literal["model_call"] = "model_call"
    call_id: str
    model: str = ""
    route: str = ""
    status: int | None = Field(default=None, ge=0, le=999)
    """Of HTTP; None where there was no answer."""
    seconds: _Seconds = 0.0
    first_byte_s: _Seconds | None = None
    tokens_in: _Count = 0
    tokens_out: _Count = 0
    tries: int = Field(default=1, ge=1)
    error: str = ""
    request: str | None = None
    response: str | None = None


class BudgetCharged(_OfAttempt):
    """What the rollout has spent so far, and how long this attempt waited to be admitted.

    An attempt that starts over has the budget that the lost one began with; one that goes on has what is left.
    """

    kind: Literal["budget"] = "budget"
    budget: Budget
    queued_s: _Seconds = 0.0


class AttemptMasked(_OfAttempt):
    """The attempt gives no measurement, found out before there was an outcome. A masked outcome needs no such event."""

    kind: Literal["mask"] = "mask"
    durable: ClassVar[bool] = True
    mask: Mask


class OutcomeReached(_OfAttempt):
    """The attempt was graded, or masked while it was graded."""

    kind: Literal["outcome"] = "outcome"
    durable: ClassVar[bool] = True
    outcome: Outcome


class ArtifactWritten(Event):
    """A file of the run: ``path`` is relative to the run directory, and without ``.gz`` where it is compressed.

    An artifact that is being written has ``is_open``; its size is then that of the file.
    """

    kind: Literal["artifact"] = "artifact"
    rollout_id: str | None = None
    """None = it belongs to the whole run."""
    attempt: _Attempt | None = None
    name: str
    role: ArtifactRole = "other"
    path: str
    size_bytes: _Count = 0
    stored_bytes: _Count = 0
    encoding: Encoding = "identity"
    is_open: bool = False


# -- checkpoints -----------------------------------------------------------------------------------------------------


class _OfCheckpoint(Event):
    checkpoint_id: str = Field(min_length=1)


class CheckpointPhase(_OfCheckpoint):
    """One operation of the checkpoint protocol is over: prepare, commit, resume, restore, release, ..."""

    kind: Literal["checkpoint_phase"] = "checkpoint_phase"
    operation: str
    participant: str = ""
    """Empty = of the coordinator, over all participants."""
    seconds: _Seconds
    ok: bool = True
    message: str = ""


class CheckpointSaved(_OfCheckpoint):
    """It is complete on disk, and kept. ``path`` is where."""

    kind: Literal["checkpoint_saved"] = "checkpoint_saved"
    durable: ClassVar[bool] = True
    path: str = ""
    records: _Count = 0
    restarts: _Count = 0
    snapshots: _Count = 0
    size_bytes: _Count = 0
    seconds: _Seconds = 0.0


class CheckpointRollout(_OfCheckpoint):
    """What a checkpoint holds of a rollout: its state at ``boundary``, or nothing (``restart``) and why."""

    kind: Literal["checkpoint_rollout"] = "checkpoint_rollout"
    rollout_id: str = Field(min_length=1)
    attempt: _Attempt
    held: Literal["saved", "restart"]
    boundary: str = ""
    tier: str = ""
    reason: str = ""
    spent_s: _Seconds = 0.0
    steps: _Count = 0


class CheckpointKept(_OfCheckpoint):
    """The retention policy decided to keep it, and why."""

    kind: Literal["checkpoint_kept"] = "checkpoint_kept"
    durable: ClassVar[bool] = True
    reason: str = ""


class CheckpointReleased(_OfCheckpoint):
    """It is kept no longer: it cannot be restored any more."""

    kind: Literal["checkpoint_released"] = "checkpoint_released"
    durable: ClassVar[bool] = True
    reason: str = ""


class SnapshotTaken(_OfCheckpoint):
    """A sandbox was frozen under a checkpoint."""

    kind: Literal["snapshot_taken"] = "snapshot_taken"
    snapshot_id: str = Field(min_length=1)
    rollout_id: str = ""
    attempt: _Attempt | None = None
    provider: str = ""
    node: str = ""
    """The machine and cache folder that has it (:mod:`swe_sdk.sandbox.node`); empty = not bound to any, or unknown."""
    size_bytes: _Measured = None
    """None = not measured: sealing a sandbox takes the same time however large it is, and measuring would not."""
    seconds: _Seconds = 0.0


class SnapshotCopied(Event):
    """All of a snapshot lies on shared storage as well, from where another node can have it."""

    kind: Literal["snapshot_copied"] = "snapshot_copied"
    snapshot_id: str = Field(min_length=1)
    path: str
    """The folder with the copies of its series."""


class SnapshotReferenced(_OfCheckpoint):
    """A checkpoint needs a snapshot, be it one that was taken under another."""

    kind: Literal["snapshot_referenced"] = "snapshot_referenced"
    snapshot_id: str = Field(min_length=1)
    rollout_id: str = ""


class SnapshotReleased(Event):
    """A snapshot was deleted."""

    kind: Literal["snapshot_released"] = "snapshot_released"
    durable: ClassVar[bool] = True
    snapshot_id: str = Field(min_length=1)
    reason: str = ""


AnyEvent = Annotated[
    WriterOpened
    | WriterClosed
    | RunStarted
    | RunEnded
    | RolloutQueued
    | AttemptStarted
    | AttemptEnded
    | RolloutEnded
    | RolloutParked
    | RolloutUnparked
    | StageStarted
    | StageEnded
    | StepTaken
    | ModelCalled
    | BudgetCharged
    | AttemptMasked
    | OutcomeReached
    | ArtifactWritten
    | CheckpointPhase
    | CheckpointSaved
    | CheckpointRollout
    | CheckpointKept
    | CheckpointReleased
    | SnapshotTaken
    | SnapshotCopied
    | SnapshotReferenced
    | SnapshotReleased,
    Field(discriminator="kind"),
]
"""Any of the events, told apart by ``kind``."""


class Line(Record):
    """One line of a journal."""

    v: int
    n: int = Field(ge=1, lt=2**31)
    """Number in its file, without gaps."""
    t: float = Field(ge=0, lt=1e12, allow_inf_nan=False)
    """Unix seconds: when it happened."""
    event: AnyEvent
