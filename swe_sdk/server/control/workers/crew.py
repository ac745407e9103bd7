"""The workers that are connected just now: who they are, what they said, and how all of them are asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from swe_sdk.checkpoint.codes import Code, refuse
from swe_sdk.checkpoint.messages import PrepareReport
from swe_sdk.checkpoint.participants.marks import Marks
from swe_sdk.errors import CheckpointError
from swe_sdk.server.control.workers import gathering, placement
from swe_sdk.server.control.workers.gathering import Gathering, Numbered
from swe_sdk.server.control.workers.link import Link

_GONE: Code = "checkpoint_coordinator_unavailable"
"""What a link that has ended answers."""


@dataclass(eq=False)
class Seat:
    """A connection, and who sits there once it has said so."""

    worker: str = ""
    address: str = ""
    """Where requests to this worker alone are sent; empty = nowhere."""
    link: Link = field(init=False)


class Crew:
    """Keeps the pure state of the workers and tells them what they must know, in order."""

    def __init__(self) -> None:
        self.gathering = Gathering()
        self.aliases: dict[str, str] = {}
        """Former owners of sessions, and who has them now."""
        self.unanswered: set[str] = set()
        """Workers that were asked something last, and have not answered yet."""
        self._seats: dict[str, Seat] = {}

    @property
    def workers(self) -> frozenset[str]:
        """Who is connected."""
        return frozenset(self._seats)

    # -- they come and go -------------------------------------------------------------------------------------------

    def join(self, seat: Seat, body: Mapping[str, Any], kind: str, *, checkpoint_id: str | None, marks: Marks) -> str:
        """Take a worker in, and tell it where things stand; why not, where it cannot be. It is told that as well."""
        problem = ""
        if body["kind"] != kind:
            problem = f"the participant is of kind {kind}, and worker {body['worker']} of kind {body['kind']}"
        elif body["worker"] in self._seats:
            problem = f"there is a worker {body['worker']} already"
        if problem:
            seat.link.tell("refused", problem)
            return problem
        seat.worker, seat.address = body["worker"], body["address"]
        self._seats[seat.worker] = seat
        self.gathering = gathering.joined(self.gathering, seat.worker)
        is_closed = self.gathering.is_closed
        close = {"generation": self.gathering.generation, "checkpoint_id": checkpoint_id} if is_closed else None
        seat.link.tell("welcome", {"marks": marks.as_dict(), "close": close, "peers": self._peers()})
        self._tell_peers()
        return ""

    def leave(self, seat: Seat) -> bool:
        """Whether it was one of us."""
        if self._seats.get(seat.worker) is not seat:
            return False
        del self._seats[seat.worker]
        self.gathering = gathering.left(self.gathering, seat.worker)
        self.aliases = placement.without(self.aliases, seat.worker)
        self.unanswered.discard(seat.worker)
        self._tell_peers()
        return True

    def alias(self, placed: Mapping[str, str]) -> None:
        """Sessions were placed: everybody is told where."""
        self.aliases = placement.with_placed(self.aliases, placed)
        self._tell_peers()

    def _tell_peers(self) -> None:
        self.tell_all("peers", self._peers())

    def _peers(self) -> dict[str, Any]:
        return {"addresses": {name: seat.address for name, seat in self._seats.items()}, "aliases": self.aliases}

    # -- checkpoints ------------------------------------------------------------------------------------------------

    def close(self, checkpoint_id: str) -> None:
        """The park signal, to all of them."""
        self.gathering = gathering.closed(self.gathering)
        self.tell_all("close", {"generation": self.gathering.generation, "checkpoint_id": checkpoint_id})

    def open(self) -> None:
        """They go on."""
        self.gathering = gathering.opened(self.gathering)
        self.tell_all("open")

    def report(self, seat: Seat, body: Mapping[str, Any]) -> None:
        """One of them says how far it is."""
        told = Numbered(body["generation"], body["number"], PrepareReport.model_validate(body["report"]))
        self.gathering = gathering.reported(self.gathering, seat.worker, told)

    # -- asking -----------------------------------------------------------------------------------------------------

    def tell_all(self, name: str, body: Any = None) -> None:
        """A message to everybody."""
        for seat in list(self._seats.values()):
            seat.link.tell(name, body)

    async def ask_all(self, name: str, body: Any = None, *, required: bool = False) -> dict[str, Any]:
        """The replies of all that are there, by worker; see :meth:`ask_each`."""
        return await self.ask_each(name, dict.fromkeys(self._seats, body), required=required)

    async def ask_each(self, name: str, bodies: Mapping[str, Any], *, required: bool = False) -> dict[str, Any]:
        """All at once, and all to their end; then the first refusal is raised.

        One that is lost meanwhile has no reply, which is an error (``checkpoint_error``) where all are required.
        """
        replies: dict[str, Any] = {}
        refusals: list[CheckpointError] = []

        async def one(worker: str) -> None:
            try:
                replies[worker] = await self._answer(worker, name, bodies[worker])
            except CheckpointError as error:
                if error.code != _GONE:
                    refusals.append(error)
                elif required:
                    refusals.append(refuse("checkpoint_error", f"worker {worker} was lost during {name}"))

        async with anyio.create_task_group() as tasks:
            for worker in bodies:
                tasks.start_soon(one, worker)
        if refusals:
            raise refusals[0]
        return replies

    async def _answer(self, worker: str, name: str, body: Any) -> Any:
        """Where nobody waits any more it stays unanswered, until the worker answers anything."""
        self.unanswered.add(worker)
        try:
            told = await self._link(worker).ask(name, body)
        except CheckpointError:
            self.unanswered.discard(worker)
            raise
        self.unanswered.discard(worker)
        return told

    def _link(self, worker: str) -> Link:
        seat = self._seats.get(worker)
        if seat is None:
            raise refuse(_GONE, f"worker {worker} is gone")
        return seat.link
