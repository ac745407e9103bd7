"""A worker's side: it does what its coordinator says, and reports to it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from pydantic import TypeAdapter

from swe_sdk.alongside import alongside
from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.messages import EpisodeId, PrepareReport
from swe_sdk.checkpoint.participants.base import BaseParticipant
from swe_sdk.checkpoint.participants.part import Part
from swe_sdk.checkpoint.records import EpisodeRecord
from swe_sdk.model.ids import new_id
from swe_sdk.server.control.forwarding import ForwardingParticipant
from swe_sdk.server.control.workers.link import Link
from swe_sdk.server.control.workers.unix import UnixStream, connected

JOIN_S = 30.0
_EPISODES = TypeAdapter(tuple[EpisodeId, ...])
_Work = Callable[[Any], Awaitable[Any]]


class Member:
    """One worker of a server; ``socket_path`` is that of its :class:`.hub.WorkersParticipant`.

    ``name`` is of one process and never used again; ``address`` is where requests to this worker alone can be sent. It
    is what an :class:`~swe_sdk.checkpoint.participants.episodes.EpisodeParticipant` of several workers takes as
    ``claims``::

        member = Member(socket_path)
        async with EpisodeParticipant(claims=member) as episodes, member.joined(episodes):
            ...
    """

    def __init__(self, socket_path: Path, *, name: str = "", address: str = "", url: str = "") -> None:
        self.name = name or f"worker-{os.getpid()}-{new_id('w')[2:8]}"
        self.address = address
        self.url = url
        """Where the whole server is reached from this machine."""
        self.addresses: Mapping[str, str] = {}
        """Of all workers that are connected, this one included."""
        self.aliases: Mapping[str, str] = {}
        """Former owners of restored sessions, and who has them now."""
        self.control = ForwardingParticipant(self._control)
        """The participant that all workers are together: what the control routes of any worker are made of."""
        self._socket_path = socket_path
        self._link: Link | None = None
        self._part: Part | None = None
        self._welcome = anyio.Event()
        self._refused = ""
        self._is_lost = False
        self._generation: int | None = None
        self._number = 0

    def owner_of(self, name: str) -> str | None:
        """Which live worker is meant by the name of one; None where what it had is nowhere."""
        now = self.aliases.get(name, name)
        return now if now in self.addresses else None

    @asynccontextmanager
    async def joined(self, participant: BaseParticipant[Any]) -> AsyncIterator[None]:
        """Be a worker within the block. Let no request in before, nor after.

        Where the coordinator is lost, the block is cancelled and ``checkpoint_coordinator_unavailable`` raised: what a
        worker does that nobody coordinates could not be saved.
        """
        self._part = Part(participant)
        stream = await self._connected()
        self._link = Link(stream, asked=self._asked, told=self._told)
        async with alongside() as tasks:
            tasks.start_soon(self._keep, tasks.cancel_scope)
            tasks.start_soon(self._pump)
            await self._enter()
            yield
        if self._is_lost:
            raise _lost()

    async def _connected(self) -> UnixStream:
        with anyio.move_on_after(JOIN_S):
            while True:
                try:
                    return connected(self._socket_path)
                except OSError:
                    await anyio.sleep(0.05)
        raise refuse("checkpoint_coordinator_unavailable", f"nobody listens at {self._socket_path}")

    async def _enter(self) -> None:
        assert self._link is not None
        assert self._part is not None
        self._link.tell("join", {"worker": self.name, "kind": self._part.kind, "address": self.address})
        with anyio.move_on_after(JOIN_S):
            await self._welcome.wait()
        if self._refused or not self._welcome.is_set():
            raise refuse("checkpoint_error", self._refused or "the coordinator does not answer")

    async def _keep(self, worker: anyio.CancelScope) -> None:
        """The connection, to its end; with it the worker ends."""
        assert self._link is not None
        await self._link.run()
        self._is_lost = True
        worker.cancel()

    # -- claims, for an episode participant -------------------------------------------------------------------------

    async def begin(self, episode_id: EpisodeId, task_digest: str) -> EpisodeRecord | None:
        """See :class:`~swe_sdk.checkpoint.participants.episodes.Claims`. Shielded: a grant must not be lost."""
        body = {"episode_id": episode_id.model_dump(mode="json"), "task_digest": task_digest}
        with anyio.CancelScope(shield=True):
            told = await self._ask("claim", body)
        return None if told is None else EpisodeRecord.model_validate(told)

    def end(self, episode_id: EpisodeId) -> None:
        """See :class:`~swe_sdk.checkpoint.participants.episodes.Claims`."""
        if self._link is not None:
            self._link.tell("ended", episode_id.model_dump(mode="json"))

    # -- where rollouts are -----------------------------------------------------------------------------------------

    async def place_of(self, episode_id: EpisodeId) -> str | None:
        """Which worker has an attempt, or gets it now; None where what it counts on was lost with a worker."""
        found: str | None = (await self._ask("place", episode_id.model_dump(mode="json")))["worker"]
        return found

    async def holder_of(self, session_id: str) -> str | None:
        """Which worker has a session; None where nobody has."""
        found: str | None = (await self._ask("holder", session_id))["worker"]
        return found

    async def _control(self, operation: str, request: Any) -> Any:
        return await self._ask("control", {"operation": operation, "request": request})

    async def _ask(self, name: str, body: Any) -> Any:
        if self._link is None:
            raise _lost()
        return await self._link.ask(name, body)

    # -- what the coordinator says ----------------------------------------------------------------------------------

    def _told(self, name: str, body: Any) -> None:
        """In order, and at once."""
        assert self._part is not None
        if name == "welcome":
            self._part.mark([EpisodeId(rollout_id=one, attempt=number) for one, number in body["marks"].items()])
            self._close(body["close"])
            self._meet(body["peers"])
            self._welcome.set()
        elif name == "refused":
            self._refused = body
            self._welcome.set()
        elif name == "close":
            self._close(body)
        elif name == "open":
            self._generation = None
            self._part.open()
        elif name == "peers":
            self._meet(body)
        elif name == "forget":
            self._part.forget(body)

    def _meet(self, peers: Any) -> None:
        self.addresses, self.aliases = peers["addresses"], peers["aliases"]

    def _close(self, body: Any) -> None:
        if body is not None:
            self._generation, self._number = body["generation"], 0
            self._part_here.close(body["checkpoint_id"])

    @property
    def _part_here(self) -> Part:
        assert self._part is not None
        return self._part

    async def _asked(self, name: str, body: Any) -> Any:
        work: Mapping[str, _Work] = {
            "export": self._export,
            "drop_unclaimed": self._drop_unclaimed,
            "install": self._install,
            "settle": self._settle,
            "retire": self._retire,
            "release": self._release,
            "sessions": self._sessions,
            "extras": self._extras,
        }
        return await work[name](body)

    async def _export(self, body: Any) -> Any:
        scope = None if body["scope"] is None else frozenset(_EPISODES.validate_python(body["scope"]))
        records = await self._part_here.export(body["checkpoint_id"], scope)
        return {"records": records, "sessions": list(self._part_here.session_episodes)}

    async def _drop_unclaimed(self, body: Any) -> Any:
        await self._part_here.drop_unclaimed(frozenset(_EPISODES.validate_python(body["scope"])), body["also"])

    async def _install(self, body: Any) -> Any:
        await self._part_here.install(body["records"], body["checkpoint_id"])

    async def _settle(self, _body: Any) -> Any:
        await self._part_here.settle()

    async def _retire(self, body: Any) -> Any:
        episodes = _EPISODES.validate_python(body["episodes"])
        self._part_here.mark(episodes)
        await self._part_here.stop(episodes)

    async def _release(self, body: Any) -> Any:
        return {"released": await self._part_here.release(frozenset(body["kept"]))}

    async def _sessions(self, _body: Any) -> Any:
        return {"sessions": list(self._part_here.session_episodes)}

    async def _extras(self, _body: Any) -> Any:
        return {"extras": self._part_here.extras()}

    # -- reports ----------------------------------------------------------------------------------------------------

    async def _pump(self) -> None:
        """Tell whose sessions there are; and while admission is closed, how far we are; whenever that has changed."""
        participant, told = self._part_here.participant, dict[str, EpisodeId]()
        last: tuple[int, PrepareReport] | None = None
        while True:
            if self._welcome.is_set():
                told = self._tell_sessions(told)
            generation = self._generation
            if generation is not None and self._welcome.is_set():
                current = (generation, self._part_here.report())
                if current != last:
                    self._report(*current)
                    last = current
            await participant.changes.wait(None if generation is None else participant.poll_s)

    def _tell_sessions(self, before: Mapping[str, EpisodeId]) -> dict[str, EpisodeId]:
        assert self._link is not None
        now = self._part_here.session_episodes
        if now != before:
            begun = {key: one.model_dump(mode="json") for key, one in now.items() if before.get(key) != one}
            self._link.tell("sessions", {"begun": begun, "ended": [key for key in before if key not in now]})
        return now

    def _report(self, generation: int, report: PrepareReport) -> None:
        assert self._link is not None
        self._number += 1
        body = {"generation": generation, "number": self._number, "report": report.model_dump(mode="json")}
        self._link.tell("report", body)


def _lost() -> Exception:
    return refuse("checkpoint_coordinator_unavailable", "the coordinator of this server's workers is gone")
