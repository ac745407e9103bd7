"""Jobs, what comes of them, and what an executor promises.

A job is JSON and so is its result: nothing else travels between machines. A job names an async function that every
machine can import, its *work*::

    async def work(input: dict, place: Place) -> JSON        # or Done(JSON, reusable=False)

Promises of every executor, tried by :mod:`swe_sdk.testing.executor_suite`:

* results come in the order in which jobs finish, and a job that fails stops no other;
* a job whose caller is cancelled is cancelled where it runs, and ``run`` returns when its cleanup is over;
* a worker that dies, or its whole node, makes its jobs ``lost``, and nothing else: no job is repeated unasked;
* of equal jobs (``key``) that are asked for at the same time one runs, and all get its result;
* what a dead worker has left is reaped before another one works on its node.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from pydantic import Field

from swe_sdk.model.policy import FailureKind
from swe_sdk.model.record import Record


class Near(Record):
    """Where a job should run."""

    node: str
    """As :attr:`NodeInfo.id` has it."""
    wait_s: float = Field(ge=0)
    """How long to wait for a place there."""


class Job(Record):
    """Something to be done somewhere."""

    id: str
    """For its reader; need not be unique."""
    work: str
    """``package.module:function``, see above."""
    input: dict[str, Any] = Field(default_factory=dict)
    """Plain data, without secrets: some executors write it to a disk."""
    key: str | None = None
    """Jobs of equal key have equal results; None = equal to no other."""
    deadline_s: float | None = Field(default=None, gt=0)
    """Seconds of work, from when it has begun; it is cancelled then, and has failed."""
    near: Near | None = None
    """Run it there; ``unplaced`` where that cannot be in time. An executor that cannot choose runs it anywhere."""


class JobError(Record):
    """An exception that a job ended with. The fault of the work itself, which should tell such things as data."""

    type: str
    message: str
    kind: FailureKind = "internal_error"
    """What it is to the policy table. ``provider_unavailable`` is of the node: the job has not begun, and another node
    may have what it needs."""
    remedy: str = ""
    traceback: str = ""


class JobResult(Record):
    """What came of a job."""

    id: str
    state: Literal["done", "failed", "lost", "unplaced"]
    """``lost``: nobody knows how far it came, because its worker died or was told to stop. ``unplaced``: it has not
    begun, since it was to run ``near`` a node that gave it no place."""
    output: Any = None
    """What the work returned, where it is done."""
    reusable: bool = True
    """Whether an equal job that comes later may be answered by this; what is not done is never reusable."""
    error: JobError | None = None
    """Why it failed or was lost."""
    node: str = ""
    """Where it ran."""
    seconds: float = 0.0
    """From its beginning there to its end."""


class Done(NamedTuple):
    """What a work may return instead of plain data."""

    output: Any
    reusable: bool = True


class NodeInfo(Record):
    """One process that carries out jobs, and where its machine keeps things."""

    node: str
    host: str
    pid: int
    state: str
    """Its state directory, with the environments, images and boxes of its machine."""
    id: str = ""
    """Of that machine and directory (:func:`swe_sdk.sandbox.node.node_id`): what was kept there is found there."""
    slots: int
    """How many jobs it runs at a time."""
    sdk_version: str = ""


@runtime_checkable
class Pool(Protocol):
    """An executor at work. One pool serves any number of callers of one event loop."""

    async def run(self, job: Job) -> JobResult:
        """What came of one job. Raises nothing but cancellation, and then the job is over where it ran."""

    async def everywhere(self, job: Job, *, later_too: bool = False) -> None:
        """Carry it out once on each node; ``later_too`` = also on nodes that come, before they get other jobs.

        For what makes things ready, such as environments, or puts them away. That it fails is logged, and no more.
        """

    async def collect(self, node: str, folder: str, below: Sequence[str]) -> None:
        """Bring here what a node has written for ``folder``, of its parts ``below``; nothing where it is shared.

        Raises ``TransferFailed`` where the node is gone.
        """

    def nodes(self) -> list[NodeInfo]:
        """Who carries out jobs at the moment."""

    @property
    def shares_files(self) -> bool:
        """Whether all nodes see the folders of who gives the jobs, by the same paths."""


@runtime_checkable
class Executor(Protocol):
    """Settings of an engine; :meth:`open` puts it to work."""

    @property
    def name(self) -> str:
        """As in ``executor="ray"``."""

    def open(self) -> AbstractAsyncContextManager[Pool]:
        """A pool, until the block ends: then it drains, closes every sandbox, and stops what it started.

        Raises ``PrerequisiteError`` where the engine is not installed or cannot be reached.
        """


def unplaced(job: Job, reason: str) -> JobResult:
    """The result of a job that was to run on a certain node."""
    error = JobError(type="Unplaced", message=reason, kind="lost_worker")
    return JobResult(id=job.id, state="unplaced", error=error, reusable=False)


def lost(
    job: Job, reason: str, *, kind: FailureKind = "lost_worker", node: str = "", seconds: float = 0.0
) -> JobResult:
    """The result of a job whose worker is gone, or never came."""
    error = JobError(type="LostWorker", message=reason, kind=kind)
    return JobResult(id=job.id, state="lost", error=error, node=node, seconds=seconds, reusable=False)
