"""The coordinator of several workers: towards the outside it is one participant, with one phase, lease and manifest."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import anyio
from anyio import to_thread
from pydantic import TypeAdapter

from swe_sdk.checkpoint import messages, store
from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.messages import EpisodeId, Kind, PrepareReport, Status
from swe_sdk.checkpoint.participant import REQUESTS
from swe_sdk.checkpoint.participants.base import BaseParticipant
from swe_sdk.checkpoint.protocol.machine import Call
from swe_sdk.checkpoint.records import CheckpointRecord, EpisodeRecord
from swe_sdk.errors import CheckpointError
from swe_sdk.server.control.workers.claims import ClaimBook
from swe_sdk.server.control.workers.crew import Crew, Seat
from swe_sdk.server.control.workers.gathering import merged, silent
from swe_sdk.server.control.workers.joining import RECORDS, joint, session_of
from swe_sdk.server.control.workers.link import Link
from swe_sdk.server.control.workers.placement import place
from swe_sdk.server.control.workers.places import Places
from swe_sdk.server.control.workers.sessions import SessionBook
from swe_sdk.server.control.workers.statuses import joint_extras
from swe_sdk.server.control.workers.unix import UnixStream, listening, serve

EXPECTED_S = 10.0
"""How long a restore waits for workers that are still to come, before it goes on with those that are there."""
REPORT_S = 5.0
"""How long workers are waited for that only have to say something."""
Groups = dict[str, list[CheckpointRecord]]
"""Records by the former owner of their sessions."""
_EPISODES = TypeAdapter(tuple[EpisodeId, ...])
_NOTHING: Any = {"scope": [], "also": []}
"""To keep of what was restored and not claimed."""
_log = logging.getLogger("swe_sdk.checkpoint")


class WorkersParticipant(BaseParticipant[CheckpointRecord]):
    """All workers of one server as one participant; open between ``async with`` and its end.

    Workers of this ``kind`` connect to ``socket_path``, which only this user can (mode 0600). ``expected`` is how many
    there should be. Where one is lost while admission is closed, the checkpoint cannot be committed: resume it, and
    save again. What a lost worker had is over.
    """

    def __init__(self, kind: Kind, instance: str, *, socket_path: Path, expected: int, **settings: Any) -> None:
        super().__init__(instance, **settings)
        self.kind = kind  # type: ignore[misc]  # of this object, where others have it by their class
        self.record_type = RECORDS[kind]
        self.socket_path = socket_path
        self.expected = expected
        self.crew = Crew()
        self._book = ClaimBook()
        self._sessions = SessionBook()
        self._places = Places()
        self._owners: dict[str, str] = {}
        """Who has each session, as of the last export or restore."""
        self._former: dict[str, str] = {}
        """Who had the sessions of still earlier owners, as of the last restore: clients may know them by that name."""
        self._placed: dict[str, Groups] = {}
        """What was installed at which worker, until admission opens."""

    async def __aenter__(self) -> Self:
        # under another name until it listens: who finds a socket where nobody does takes it for one that is left over
        new = self.socket_path.with_name(f"{self.socket_path.name}.new")
        new.unlink(missing_ok=True)
        listener = listening(new)
        new.replace(self.socket_path)
        await super().__aenter__()
        assert self._tasks is not None
        self._tasks.start_soon(serve, listener, self._serve_worker)
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await super().__aexit__(*raised)
        self.socket_path.unlink(missing_ok=True)

    # -- workers ----------------------------------------------------------------------------------------------------

    async def _serve_worker(self, stream: UnixStream) -> None:
        seat = Seat()

        async def asked(name: str, body: Any) -> Any:
            return await self._asked(seat, name, body)

        seat.link = Link(stream, asked=asked, told=lambda name, body: self._told(seat, name, body))
        try:
            await seat.link.run()
        finally:
            self._leave(seat)

    def _told(self, seat: Seat, name: str, body: Any) -> None:
        if name == "join":
            problem = self.crew.join(seat, body, self.kind, checkpoint_id=self.control.checkpoint_id, marks=self.marks)
            if problem:
                _log.warning("a worker was refused: %s", problem)
        elif name == "report":
            self.crew.report(seat, body)
        elif name == "sessions":
            begun = {key: EpisodeId.model_validate(one) for key, one in body["begun"].items()}
            over = self._sessions.last_of(seat.worker, body["ended"])
            self._places.told(seat.worker, begun.values(), over)
            self._sessions.told(seat.worker, begun, body["ended"])
        elif name == "ended":
            episode = EpisodeId.model_validate(body)
            self._book.end(seat.worker, episode)
            self._places.told(seat.worker, (), [episode])
        self.changes.notify()

    def _leave(self, seat: Seat) -> None:
        if self.crew.leave(seat):
            self._book.lost(seat.worker)
            self._places.left(seat.worker, anyio.current_time())
            self._sessions.left(seat.worker, is_made_up_for=seat.worker in self._placed)
            self.changes.notify()

    async def _asked(self, seat: Seat, name: str, body: Any) -> Any:
        if name == "claim":
            return self._claim(seat, EpisodeId.model_validate(body["episode_id"]), body["task_digest"])
        if name == "place":
            episode, workers = EpisodeId.model_validate(body), self.crew.workers
            return {"worker": self._places.owner(episode, seat.worker, workers, anyio.current_time())}
        if name == "holder":
            return {"worker": self._sessions.holder(body) or await self._holder_asked(body)}
        assert name == "control"
        return await self._control(body["operation"], body["request"])

    def _claim(self, seat: Seat, episode_id: EpisodeId, task_digest: str) -> Any:
        """Under the eyes of one process: exactly one worker gets it."""
        self.marks.require_live(episode_id)
        self.require_open()
        saved = self._book.begin(seat.worker, episode_id, task_digest)
        self._places.told(seat.worker, [episode_id], ())
        return None if saved is None else saved.model_dump(mode="json", by_alias=True)

    async def _holder_asked(self, session: str) -> str | None:
        """One that has been made at this very moment was not told yet."""
        replies: dict[str, Any] = {}
        with anyio.move_on_after(REPORT_S):
            replies = await self.crew.ask_all("sessions")
        return next((name for name, told in replies.items() if session in told["sessions"]), None)

    async def _control(self, operation: messages.Operation, request: Any) -> Any:
        """A control call that came to a worker."""
        if operation == "status":
            return (await self.status()).model_dump(mode="json")
        told = REQUESTS[operation].model_validate(request)
        return (await getattr(self, operation)(told)).model_dump(mode="json")

    # -- checkpoints ------------------------------------------------------------------------------------------------

    def _on_close(self) -> None:
        assert self.control.checkpoint_id is not None
        self.crew.close(self.control.checkpoint_id)

    def _on_open(self) -> None:
        self._placed = {}
        self.crew.open()

    def _report(self) -> PrepareReport:
        waiting = tuple(one.episode_id for one in self._book.pending.values())
        counts = {"pending": len(waiting)} if self.kind == "environment" else {}
        own = PrepareReport.of([], episodes=waiting, counts=counts, restarts=self._sessions.restarts(self.marks))
        return merged(self.crew.gathering, own)

    async def _export(self, checkpoint_id: str, scope: frozenset[EpisodeId] | None) -> Sequence[CheckpointRecord]:
        body = {"checkpoint_id": checkpoint_id, "scope": None if scope is None else _plain(scope)}
        replies = await self.crew.ask_all("export", body, required=True)
        superseded = self._sessions.superseded()
        self._owners = {
            session: name
            for name, reply in sorted(replies.items())
            for session in reply["sessions"]
            if session not in superseded.get(name, ())
        }
        records = joint(self.kind, {name: reply["records"] for name, reply in replies.items()}, superseded)
        waiting = self._book.pending.values()
        return [*records, *(one for one in waiting if scope is None or one.episode_id in scope)]

    def _manifest_extras(self) -> dict[str, Any]:
        return {"session_owners": self._owners, "session_aliases": dict(self.crew.aliases)}

    async def _drop_unclaimed(self, scope: frozenset[EpisodeId], also: Collection[str] = ()) -> None:
        self._book.keep(scope)
        superseded = self._sessions.superseded()
        bodies = {name: {"scope": _plain(scope), "also": [*superseded.get(name, ())]} for name in self.crew.workers}
        await self.crew.ask_each("drop_unclaimed", bodies)

    async def _read_and_install(self, call: Call, request: messages.RestoreRequest) -> int:
        place_of = store.folder(Path(request.checkpoint_dir), self.kind, self.instance)
        manifest = await to_thread.run_sync(store.read_manifest, place_of)
        extra = manifest.model_extra or {}
        self._owners = dict(extra.get("session_owners") or {})
        self._former = dict(extra.get("session_aliases") or {})
        return await super()._read_and_install(call, request)

    async def _install(self, records: Sequence[CheckpointRecord], checkpoint_id: str) -> None:
        if self.kind == "environment":
            self._book.install([one for one in records if isinstance(one, EpisodeRecord)], self.marks)
            return
        await self._expect_workers()
        try:
            await self._place(self._grouped(records))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.crew.ask_all("drop_unclaimed", _NOTHING)
            self._placed = {}
            raise

    async def _expect_workers(self) -> None:
        with anyio.move_on_after(EXPECTED_S):
            await self.changes.until(lambda: len(self.crew.workers) >= self.expected)

    def _grouped(self, records: Sequence[CheckpointRecord]) -> Groups:
        """By owner; an owner of sessions that hold no state has none."""
        groups: Groups = {owner: [] for owner in self._owners.values()}
        for record in records:
            groups.setdefault(self._owners.get(session_of(record) or "", ""), []).append(record)
        return groups

    async def _place(self, groups: Groups) -> None:
        """All that one worker had goes to one worker, and everybody learns by which name its clients know it."""
        loads = {name: len(told["sessions"]) for name, told in (await self.crew.ask_all("sessions")).items()}
        placed = place({owner: len(group) for owner, group in groups.items()}, loads)
        chosen = set(placed.values())
        anew: dict[str, Any] = dict.fromkeys(chosen & set(self._placed), _NOTHING)
        await self.crew.ask_each("drop_unclaimed", anew, required=True)  # who has some already gets all at once
        for owner, group in groups.items():
            self._placed.setdefault(placed[owner], {})[owner] = group
        await self.crew.ask_each("install", {name: self._order(name) for name in chosen}, required=True)
        for owner, group in groups.items():
            self._places.restored(placed[owner], _episodes_of(group), anyio.current_time())
        earlier = {name: placed[owner] for name, owner in self._former.items() if owner in placed}
        self.crew.alias({**earlier, **{owner: name for owner, name in placed.items() if owner}})

    def _order(self, worker: str) -> Any:
        records = [one for group in self._placed[worker].values() for one in _dumped(group)]
        return {"checkpoint_id": self.control.checkpoint_id, "records": records}

    async def _settle(self) -> None:
        """What was installed at a worker that was lost since goes to another one, before anybody asks for it."""
        lost = [self._placed.pop(name) for name in set(self._placed) - self.crew.workers]
        if lost:
            await self._place({owner: group for groups in lost for owner, group in groups.items()})
        await self.crew.ask_all("settle")

    async def _stop(self, episodes: Sequence[EpisodeId]) -> None:
        self._book.drop(self.marks)
        await self.crew.ask_all("retire", {"episodes": _plain(episodes)})

    @contextmanager
    def _operation(self, call: Call) -> Iterator[None]:
        with super()._operation(call):
            try:
                yield
            except CheckpointError as error:
                silent = sorted(self.crew.unanswered)
                if error.code != "deadline_exceeded" or not silent:
                    raise
                detail = f"{error.detail}; no answer of {', '.join(silent)}"
                remedy = "their names hold their pids: end what hangs with SIGKILL, another worker is started for it"
                raise refuse("deadline_exceeded", detail, remedy=remedy) from error

    async def commit(self, request: messages.CommitRequest) -> messages.CommitReply:
        """Export and write; a worker that has just joined gets a moment for its first report."""
        with anyio.move_on_after(REPORT_S):
            await self.changes.until(lambda: not silent(self.crew.gathering))
        return await super().commit(request)

    async def resume(self, request: messages.ResumeRequest) -> messages.ResumeReply:
        """Open admission; every worker has opened when this returns."""
        reply = await super().resume(request)
        with anyio.move_on_after(REPORT_S):
            await self.crew.ask_all("sessions")  # what was told before is done by whoever answers this
        return reply

    async def forget(self, request: messages.ForgetRequest) -> messages.ForgetReply:
        """Drop marks, everywhere."""
        reply = await super().forget(request)
        self._sessions.forget(request.rollout_ids)
        self.crew.tell_all("forget", list(request.rollout_ids))
        return reply

    async def _release(self, kept: frozenset[str]) -> int:
        replies = await self.crew.ask_all("release", {"kept": sorted(kept)})
        return sum(reply["released"] for reply in replies.values())

    async def status(self) -> Status:
        """Of all workers; they are left out where one of them does not answer."""
        told: dict[str, Any] = {}
        with anyio.move_on_after(REPORT_S):
            told = await self.crew.ask_all("extras")
        extras = joint_extras([reply["extras"] for _, reply in sorted(told.items())])
        own: dict[str, Any] = {"workers": len(self.crew.workers), "expected_workers": self.expected}
        if self.kind == "environment":
            own["restored_pending"] = len(self._book.pending)
        status = await super().status()
        return status.model_copy(update={"extras": {**extras, **own, "session_aliases": dict(self.crew.aliases)}})


def _plain(episodes: Sequence[EpisodeId] | frozenset[EpisodeId]) -> Any:
    return _EPISODES.dump_python(tuple(episodes), mode="json")


def _dumped(records: Sequence[CheckpointRecord]) -> list[Any]:
    return [record.model_dump(mode="json", by_alias=True) for record in records]


def _episodes_of(records: Sequence[CheckpointRecord]) -> list[EpisodeId]:
    return [record.episode_id for record in records]
