"""What an agent is to the rollout engine, and what the engine lends to it.

An agent is an adapter around a harness. It knows a task's public half, a lent box, perhaps a model, and nothing of
grading: neither this package nor any adapter imports it. Two kinds, one protocol:

* *host-driven*: ``run`` is the agent's loop, in this process; it acts by ``episode.box.exec``;
* *self-driving*: ``run`` starts one long command in the box, streams its output to a transcript, and waits.

Rules for adapters:

* Time is the engine's: it cancels ``run`` when the time is up, and grades what is there. Clean up in a shielded scope
  with a cap. ``episode.remaining_s`` is for harnesses that want to know.
* What the harness does is an :class:`AgentEnd`; an exception of :mod:`swe_sdk.errors` says that the infrastructure
  failed, and any other exception that the adapter is broken. Both become masks.
* Whatever a program in the box could do by itself (exit with an error, kill its harness) is an ``AgentEnd`` and never
  an exception: a submission must not be able to buy itself a mask.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from pydantic import Field, SecretStr

from swe_sdk.model.environment import WORKDIR, Variables
from swe_sdk.model.patch import Patch
from swe_sdk.model.record import Record
from swe_sdk.model.task import Task
from swe_sdk.sandbox.contract import LentBox as LentBox
from swe_sdk.sandbox.contract import Mount

Tier = Literal["exact", "step", "paused", "restart"]
"""How a parked episode of the agent goes on in another process: *exact* (as if nothing had happened), *step* (from the
last step: what was under way is done again), *paused* (in place only; after a crash with one further user turn), or
*restart* (from the beginning)."""
Egress = Literal["none", "model"]
EndReason = Literal["done", "step_limit", "context_window", "budget", "error", "stopped"]


class AgentTask(Record):
    """The public half of a task, as the agent sees it in its box."""

    instance_id: str
    repo: str = ""
    problem_statement: str = ""
    hints: str = ""
    workdir: str = WORKDIR
    """Where the repository is in the box."""
    base_commit: str | None = None
    """What the repository is at when the agent starts."""
    metadata: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def of(cls, task: Task, *, base_commit: str | None = None) -> AgentTask:
        """Everything of a task that an agent may see."""
        return cls(
            instance_id=task.instance_id,
            repo=task.repo,
            problem_statement=task.problem_statement,
            hints=task.hints,
            workdir=task.environment.workdir,
            base_commit=base_commit or task.base_commit,
            metadata=task.metadata,
        )


class ModelAccess(Record):
    """Where an episode reaches its model: an OpenAI-compatible endpoint of its own."""

    name: str
    """The model's name, as requests must give it."""
    base_url: str
    """Ends in ``/v1``; for code in this process."""
    box_url: str | None = None
    """The same for programs in the box; None where the box cannot reach it."""
    api_key: SecretStr = SecretStr("")
    """For this episode alone. Hand it over by environment variables, never by argument or file."""


class Step(Record):
    """One thing that the agent did, small enough to be kept in a journal; large text goes to a transcript."""

    n: int = Field(ge=0)
    kind: Literal["model", "action", "message", "note"]
    summary: str = ""
    """One line for a reader."""
    seconds: float = Field(default=0.0, ge=0)
    tokens_in: int = Field(default=0, ge=0)
    tokens_out: int = Field(default=0, ge=0)
    data: dict[str, Any] = Field(default_factory=dict)
    """Plain JSON, a few kilobytes at most."""


class AgentEnd(Record):
    """How an agent ended, in its own words. ``patch`` is its own submission, if it makes one; else the tree is taken.

    ``budget``: it ran out of a budget of its own; ``error``: it failed; ``stopped``: it was asked to end.
    """

    reason: EndReason = "done"
    message: str = ""
    patch: Patch | None = None
    exit_code: int | None = None
    info: dict[str, Any] = Field(default_factory=dict)
    """Further plain data that the harness reports, such as its own counts."""


class AgentNeeds(Record):
    """What must be in the box before the agent starts."""

    egress: Egress = "none"
    """``model``: without a model the episode is not started."""
    model_from_box: bool = True
    """Whether a program in the box calls the model; False = only this process does, and the box need not reach it."""
    mounts: tuple[Mount, ...] = ()
    """Read-only files of this machine, such as the harness's program."""
    env: Variables = Field(default_factory=dict)
    """For every command in the box. No secrets: they are part of the box's specification."""


class Transcript(Protocol):
    """A file of the run that grows while the harness speaks: bytes as they come, never whole in memory."""

    @property
    def path(self) -> Path:
        """On this machine."""

    def write(self, data: bytes) -> None:
        """Append; from any thread. Beyond the size that the run allows, bytes are counted and dropped."""


class Episode(Protocol):
    """What the engine lends to an agent for one attempt."""

    @property
    def rollout_id(self) -> str:
        """``<instance id>.<sample>``."""

    @property
    def attempt(self) -> int:
        """From 1."""

    @property
    def task(self) -> AgentTask:
        """The public half of the task."""

    @property
    def box(self) -> LentBox:
        """The box with the repository."""

    @property
    def model(self) -> ModelAccess | None:
        """None where the agent needs no model, or where there is none."""

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the engine stops the agent; None = never. Time while parked is not counted."""

    @property
    def command_timeout_s(self) -> float:
        """For a single command of a host-driven agent, unless it knows better."""

    @property
    def saved(self) -> dict[str, Any] | None:
        """What the agent gave to :meth:`boundary` last, in an episode that goes on from there; None = start."""

    def record(self, step: Step) -> None:
        """Keep a step; on disk when this returns. From any thread."""

    def transcript(self, name: str) -> Transcript:
        """The transcript of that name (``stdout``, ``trajectory.jsonl``), made on first use. From any thread."""

    @property
    def park_requested(self) -> bool:
        """Whether the agent is asked to come to a boundary soon, and to wait there. From any thread."""

    async def wait_park_requested(self) -> None:
        """Until it is asked: for agents whose loop is elsewhere."""

    def awaiting_model(self) -> AbstractAsyncContextManager[None]:
        """Hold the episode's model calls until the block is left; it begins once one of them waits for its answer.

        A harness that drives itself stands still within, wherever it runs: the place for its :meth:`boundary`. Whoever
        goes on from there makes that call again. ``CapabilityMissing`` in an episode without a model.
        """

    async def boundary(self, state: dict[str, Any] | None = None) -> None:
        """The agent stands where it could be saved; ``state`` is plain JSON, and all that it needs to go on.

        Returns at once unless it is asked to park; then when it may go on, and the time until then is not charged.
        """


@runtime_checkable
class Agent(Protocol):
    """An adapter around a harness. One object may run many episodes at the same time."""

    @property
    def name(self) -> str:
        """As in the registry."""

    @property
    def version(self) -> str:
        """Of the harness; part of a run's record."""

    @property
    def tier(self) -> Tier:
        """How a parked episode goes on."""

    @property
    def needs(self) -> AgentNeeds:
        """What must be in the box."""

    async def run(self, episode: Episode) -> AgentEnd:
        """Work on the task until it is done or cancelled."""


@runtime_checkable
class TakesGold(Protocol):
    """An agent that plays back the dataset's own solution: the engine, which may see it, hands it over."""

    def with_gold(self, patch: Patch | None) -> Agent:
        """The agent for one task; None where the task has no solution."""


@runtime_checkable
class Prepares(Protocol):
    """An agent that needs time before its first episode, such as to install its harness."""

    async def prepare(self) -> None:
        """Called once by a run, before it reads :attr:`Agent.needs`; safe to call again.

        Raises ``PrerequisiteError`` where this machine lacks something.
        """
