"""What is said between a coordinator and its participants: requests, replies, reports. All refuse unknown fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat

from swe_sdk.model.record import Record

Phase = Literal["idle", "preparing", "prepared", "committed", "restored"]
Operation = Literal["prepare", "renew", "commit", "resume", "restore", "retire", "forget", "release", "status"]
Kind = Literal["environment", "model", "agent", "resources"]
"""The kinds of participants; "environment" is NeMo Gym's word for what we call the episode participant."""
Mode = Literal["stateless", "exported", "restart_only"]
"""``stateless``: nothing to save. ``exported``: saved and restored. ``restart_only``: its episodes start over."""

MAX_BLOCKERS = 100
"""How many blockers a report lists; it counts all."""

CheckpointId = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class EpisodeId(Record):
    """One attempt of a rollout. Ours are numbered from 1, NeMo Gym's from 0, which it may leave out."""

    rollout_id: str = Field(min_length=1)
    attempt: int = Field(default=0, ge=0, strict=True)

    def __str__(self) -> str:
        return f"{self.rollout_id}#{self.attempt}"


class Request(Record):
    """The base of all requests; ``deadline_ts`` is absolute, in unix seconds."""

    checkpoint_id: CheckpointId
    deadline_ts: FiniteFloat = Field(strict=True)


class PrepareRequest(Request):
    """Close admission, and wait until nothing is at work that must not be cut."""


class RenewRequest(Request):
    """Keep the checkpoint open until ``deadline_ts`` plus the grace period."""


class ResumeRequest(Request):
    """Open admission again; it also gives up a checkpoint that was not committed."""


class CommitRequest(Request):
    """Write what is parked to ``checkpoint_dir``; None = every episode but the restarts."""

    checkpoint_dir: str
    episode_ids: tuple[EpisodeId, ...] | None = None


class RestoreRequest(Request):
    """Install what ``checkpoint_dir`` holds of these episodes."""

    checkpoint_dir: str
    episode_ids: tuple[EpisodeId, ...]


class RetireRequest(Request):
    """Stop these attempts and all earlier ones of the same rollouts, and refuse them from now on."""

    episode_ids: tuple[EpisodeId, ...] = Field(min_length=1)


class ForgetRequest(Request):
    """These rollouts will not be heard of again: drop their marks."""

    rollout_ids: tuple[str, ...] = Field(min_length=1)


class ReleaseRequest(Request):
    """Free what only checkpoints outside ``kept`` need; ``checkpoint_id`` is the one that was resumed last."""

    kept: tuple[CheckpointId, ...]


class PrepareReport(Record):
    """How far a participant is with parking."""

    ready: bool
    blockers: tuple[str, ...] = Field(default=(), max_length=MAX_BLOCKERS)
    blocker_count: int = 0
    counts: dict[str, int] = Field(default_factory=dict)
    restarts: tuple[EpisodeId, ...] = ()
    """Episodes that this checkpoint cannot hold, and that hold nothing up; never capped."""
    episodes: tuple[EpisodeId, ...] = ()
    """Which episodes the checkpoint can hold; only the episode participant knows."""

    @classmethod
    def of(cls, blockers: list[str], **fields: Any) -> PrepareReport:
        """A report that is ready if nothing blocks."""
        listed = tuple(sorted(blockers)[:MAX_BLOCKERS])
        return cls(ready=not blockers, blockers=listed, blocker_count=len(blockers), **fields)


class Reply(Record):
    """The base of all replies."""

    checkpoint_id: str


class PrepareReply(Reply):
    """Ready, or what blocks."""

    report: PrepareReport


class RenewReply(Reply):
    """Until when the participant waits before it opens by itself."""

    lease_expires_at: float


class CommitReply(Reply):
    """What was written."""

    manifest: str
    record_count: int
    records_sha256: str
    bytes: int


class RestoreReply(Reply):
    """How many records were installed."""

    restored: int


class ResumeReply(Reply):
    """The phase afterwards."""

    phase: Phase


class RetireReply(Reply):
    """The marks that now hold."""

    retired: tuple[EpisodeId, ...]


class ForgetReply(Reply):
    """Whose marks were dropped."""

    forgotten: tuple[str, ...]


class ReleaseReply(Reply):
    """What was kept, and how many things were freed."""

    kept: tuple[str, ...]
    released: int = 0


class Status(Record):
    """What a participant says of itself."""

    kind: Kind
    instance: str
    phase: Phase
    checkpoint_id: str | None = None
    lease_expires_at: float | None = None
    retired_rollouts: dict[str, int] = Field(default_factory=dict)
    """Retired up to which attempt, by rollout."""
    report: PrepareReport | None = None
    extras: dict[str, Any] = Field(default_factory=dict)
    """environment: restored_pending; agent: accepting; resources: mode, verify, retired_sessions."""
