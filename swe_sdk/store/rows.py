"""What queries of the index return. Times are Unix seconds; NULL of the index is None."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, Literal, TypeVar

from pydantic import Field

from swe_sdk.model.budget import Budget
from swe_sdk.model.outcome import Mask
from swe_sdk.model.record import Record
from swe_sdk.shown import Shown, one_line
from swe_sdk.store.events import ArtifactRole, Encoding, ModelCalled, RolloutStage, StepKind, StepTaken

RolloutStatus = Literal["queued", "running", "parked", "retrying", "resolved", "unresolved", "masked", "stopped"]
"""The last four are final. *retrying*: an attempt was masked, and the next has not begun."""
FINAL: tuple[RolloutStatus, ...] = ("resolved", "unresolved", "masked", "stopped")
TestList = Literal["fail_to_pass", "pass_to_pass"]
CheckpointState = Literal["saving", "kept", "released"]
SnapshotState = Literal["kept", "released", "leaked", "violated"]


class RunRow(Record):
    """One run. ``reward_mean`` is over graded rollouts alone: masked ones are no measurement."""

    run: str
    """Name of its directory."""
    path: str
    name: str = ""
    agent: str = ""
    model: str = ""
    dataset: str = ""
    source: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    """None = it goes on, or was killed (see ``alive``)."""
    end_reason: str | None = None
    message: str = ""
    times_resumed: int = 0
    expected: int | None = None
    """How many rollouts it said that there will be."""
    rollouts: int = 0
    counts: dict[str, int] = Field(default_factory=dict)
    """Rollouts by status; a status that none has is not in it."""
    reward_mean: float | None = None
    """None where nothing was graded yet."""
    tags: dict[str, str] = Field(default_factory=dict)
    updated_at: float | None = None
    alive: bool | None = None
    """Whether one of its writers lives; None where that cannot be known from this machine."""

    @property
    def graded(self) -> int:
        """How many rollouts count for ``reward_mean``."""
        return self.counts.get("resolved", 0) + self.counts.get("unresolved", 0)


class RolloutRow(Record):
    """One rollout, as its latest attempt has it; counts are over all of its attempts."""

    run: str
    rollout_id: str
    instance_id: str
    sample: int = 0
    family: str = ""
    repo: str = ""
    agent: str = ""
    agent_version: str = ""
    model: str = ""
    provider: str = ""
    tags: dict[str, str] = Field(default_factory=dict)
    status: RolloutStatus
    stage: RolloutStage | None = None
    """The stage that is going on."""
    attempt: int = 0
    """The attempt that counts; 0 = none has begun."""
    restored_from: str | None = None
    reward: float | None = None
    """None until it is over; 0.0 where it is masked, which is no measurement."""
    mask_kind: str | None = None
    mask_stage: str | None = None
    reason: str = ""
    flags: tuple[str, ...] = ()
    total_s: float | None = None
    spent_s: float = 0.0
    parked_s: float = 0.0
    queued_s: float = 0.0
    remaining_s: float | None = None
    steps: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    model_calls: int = 0
    fail_to_pass_passed: int | None = None
    fail_to_pass_total: int | None = None
    pass_to_pass_passed: int | None = None
    pass_to_pass_total: int | None = None
    patch_sha256: str | None = None
    queued_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    seconds: float | None = None
    """From the first attempt's start to the end."""
    updated_at: float | None = None
    """Time of its newest event."""
    seq: int = 0
    """Grows whenever the row changes; see :meth:`RunIndex.changes <swe_sdk.store.index.RunIndex.changes>`."""

    @property
    def is_final(self) -> bool:
        """Whether it is over."""
        return self.status in FINAL


class AttemptRow(Record):
    """One try at a rollout."""

    attempt: int
    provider: str = ""
    restored_from: str | None = None
    boundary: str | None = None
    restart_reason: str = ""
    """Why it started over, though a checkpoint held it."""
    started_at: float | None = None
    ended_at: float | None = None
    end_reason: str | None = None
    message: str = ""
    exit_code: int | None = None
    will_retry: bool = False
    is_parked: bool = False
    steps: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    model_calls: int = 0
    outcome: str | None = None
    """Status of its outcome, if it has one."""
    mask_kind: str | None = None


class StageRow(Record):
    """One stage of an attempt. Without ``ended_at`` it is going on, or was cut off."""

    attempt: int
    stage: RolloutStage
    started_at: float | None = None
    ended_at: float | None = None
    seconds: float | None = None
    ok: bool | None = None
    message: str = ""


class StageSeconds(Record):
    """Where the time of many rollouts went, in one stage."""

    stage: RolloutStage
    count: int
    total_s: float
    mean_s: float
    max_s: float
    failed: int


class VerdictRow(Record):
    """One required test that must be looked at: each of ``fail_to_pass``, and of ``pass_to_pass`` what did not pass."""

    attempt: int
    tests: TestList
    test: str
    status: str


class MaskRow(Record):
    """Why an attempt gives no measurement."""

    run: str
    rollout_id: str
    instance_id: str
    attempt: int
    provider: str = ""
    family: str = ""
    at: float
    is_final: bool
    """Whether the rollout ended with it; else it was tried again."""
    mask: Mask


class BudgetRow(Record):
    """What an attempt had spent, and how long it had waited, when it was last written down."""

    attempt: int
    at: float
    budget: Budget
    queued_s: float = 0.0


class StepRow(Shown, Record):
    """One step of an agent. ``step`` is None where its journal is not there any more."""

    attempt: int
    n: int
    at: float
    step_kind: StepKind
    seconds: float
    tokens_in: int
    tokens_out: int
    step: StepTaken | None = None

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:  # the whole of it is model_dump()'s to show
        yield "n", self.n
        yield "attempt", self.attempt
        yield "kind", self.step_kind
        yield "seconds", self.seconds
        yield "summary", one_line(self.step.summary) if self.step is not None else None


class ModelCallRow(Shown, Record):
    """One call of a model. ``call`` is None where its journal is not there any more."""

    attempt: int
    at: float
    model: str
    status: int | None = None
    seconds: float
    tokens_in: int
    tokens_out: int
    call: ModelCalled | None = None

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        for name in ("model", "attempt", "status", "seconds", "tokens_in", "tokens_out"):
            yield name, getattr(self, name)


class ArtifactRow(Record):
    """A file of a run. Read it with :meth:`RunIndex.open_artifact <swe_sdk.store.index.RunIndex.open_artifact>`."""

    run: str
    rollout_id: str | None = None
    attempt: int | None = None
    name: str
    role: ArtifactRole
    path: str
    """Relative to the run directory, without the ``.gz`` of compressed ones."""
    size_bytes: int = 0
    stored_bytes: int = 0
    encoding: Encoding = "identity"
    is_open: bool = False


class CheckpointRow(Record):
    """One checkpoint. Until it is complete (``saved_at``) it cannot be restored."""

    run: str
    checkpoint_id: str
    state: CheckpointState = "saving"
    state_reason: str = ""
    saved_at: float | None = None
    path: str = ""
    records: int = 0
    restarts: int = 0
    snapshots: int = 0
    size_bytes: int = 0
    seconds: float | None = None


class CheckpointPhaseRow(Record):
    """One operation of the checkpoint protocol."""

    checkpoint_id: str
    at: float
    """When it was over."""
    operation: str
    participant: str = ""
    seconds: float
    ok: bool = True
    message: str = ""


class CheckpointRolloutRow(Record):
    """What a checkpoint holds of a rollout."""

    checkpoint_id: str
    rollout_id: str
    attempt: int
    held: Literal["saved", "restart"]
    boundary: str = ""
    tier: str = ""
    reason: str = ""
    spent_s: float = 0.0
    steps: int = 0


class SnapshotRow(Record):
    """One snapshot, and which checkpoints need it."""

    run: str
    snapshot_id: str
    checkpoint_id: str = ""
    """The one under which it was taken."""
    rollout_id: str = ""
    attempt: int | None = None
    provider: str = ""
    node: str = ""
    """Which machine and cache folder has it; empty = it is not bound to any, or was taken by an older version."""
    copied_to: str = ""
    """The folder of shared storage that has it too; empty = none."""
    size_bytes: int | None = None
    """None = not measured."""
    seconds: float = 0.0
    taken_at: float | None = None
    released_at: float | None = None
    release_reason: str = ""
    referenced_by: tuple[str, ...] = ()
    kept_by: tuple[str, ...] = ()
    """Of ``referenced_by`` those that are kept."""

    @property
    def state(self) -> SnapshotState:
        """One word: *leaked* and *violated* are what :attr:`trouble` is about."""
        if self.trouble is not None:
            return "leaked" if self.trouble == "leak" else "violated"
        return "kept" if self.released_at is None else "released"

    @property
    def trouble(self) -> Literal["leak", "violation"] | None:
        """*leak*: there though no kept checkpoint needs it; *violation*: released though one does."""
        if self.released_at is not None:
            return "violation" if self.kept_by else None
        return None if self.kept_by else "leak"


class GroupRow(Record):
    """Rollouts that have one value in common. ``reward_mean`` is over the graded ones."""

    value: str | None
    rollouts: int
    resolved: int
    unresolved: int
    masked: int
    reward_mean: float | None = None


class BudgetTotals(Record):
    """Budgets of many rollouts, summed."""

    rollouts: int
    total_s: float
    spent_s: float
    parked_s: float
    queued_s: float
    exhausted: int
    """Rollouts that have spent all of what they had."""


RowT = TypeVar("RowT")


class Page(Record, Generic[RowT]):
    """Some of many rows. ``total`` is how many there are; None where it was not asked for."""

    rows: tuple[RowT, ...]
    offset: int = 0
    total: int | None = None
    cursor: str | None = None
    """Give it to the same query to get the rows that follow; None = there are no more."""


class Changes(Record):
    """What changed since a cursor. Where ``is_reset``, forget what is on the screen: this is everything."""

    cursor: str
    is_reset: bool
    rollouts: tuple[RolloutRow, ...]
    runs: tuple[str, ...]
    """Runs in which anything changed, checkpoints and artifacts included."""
    more: bool = False
    """Whether there are further changes; ask again with the new cursor."""


class IndexStatus(Record):
    """How well the index follows the journals."""

    path: str
    schema_version: int
    journals: int
    lines: int
    bad_lines: int
    """Lines that could not be read, left out."""
    newer_lines: int
    """Lines of a newer version of this package, left out."""
    unread_bytes: int
    """Written and not yet indexed, torn last lines included."""
    torn: tuple[str, ...] = ()
    """Journals of dead writers that end in half a line."""
    cut: tuple[str, ...] = ()
    """Journals that are shorter than they once were: what they said after that is lost."""
    file_system: str = ""
    is_network: bool = False
    notes: tuple[str, ...] = ()
    """What a reader should know, in plain words."""
