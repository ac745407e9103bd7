"""Calls to the supervisor of a remote box, through nothing but the system's commands and files.

See :mod:`swe_sdk.sandbox.boxside.station` for the other end. A call has an id, and its reply is a file: where the
connection breaks, we ask for it again until the box is known to be gone, or nobody has answered for a while.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio

from swe_sdk.errors import SandboxError, SandboxLost, TransferFailed
from swe_sdk.model.ids import new_id
from swe_sdk.sandbox.boxside.ring import CALL
from swe_sdk.sandbox.providers.remote.engine import Engine, Upload
from swe_sdk.sandbox.providers.remote.failures import FileMissing, NotThere, Silent
from swe_sdk.sandbox.providers.remote.replies import MOST_BYTES, Reply, not_ours, parsed

OnMore = Callable[[], None]
PATIENCE_S = 30.0
"""For how long nobody need answer before a box counts as lost."""
_REST_S = 0.25
_MOST_MUTE = 12
"""How often in a row nothing may come of asking."""
_AT_ONCE_S = 2.0
"""Our program there waits: one that has ended by then, without a word of its end, is none of ours."""
TRANSFER_S = 3600.0
"""For a file on its way, as with all providers."""
_LINGER_S = 0.02
"""How long the system may take to end a command that has said its last word."""
_MOST_IN_VARIABLE = 96 << 10
"""The kernel takes 128 KiB."""
_RING = "import sys; from boxside import ring; ring.main(*sys.argv[1:])"
_QUICK_S = 60.0
_DEAD = "dead"
_OF_PROGRAMS = frozenset({"exec", "read", "write"})
"""Calls that are refused while a box is paused; the others are how it is paused and resumed."""


def _follow(name: str) -> str:
    return json.dumps({"op": "follow", "id": name})


class Held(SandboxError):
    """The sandbox is paused, so that nothing was sent to it."""


class Unknown(Exception):
    """The supervisor has never heard of the call."""


class Calls:
    """To the station of one sandbox. ``place`` is its directory, ``python`` what starts programs of ours there."""

    def __init__(self, engine: Engine, sandbox: str, place: str, python: list[str]) -> None:
        self.engine = engine
        self.sandbox = sandbox
        self.place = place
        self.python = python
        self._done: list[str] = []
        """Calls whose replies have arrived, and can be forgotten there."""
        self._on_the_way = 0
        self._mute = 0
        """How many rings in a row have come to nothing at once."""
        self.are_held = False
        """Whether the sandbox is paused: a system may keep what is sent to it meanwhile, and run it later."""

    # -- calls ------------------------------------------------------------------------------------------------------

    async def ask(self, message: dict[str, Any], *, within_s: float = _QUICK_S) -> Reply:
        """Make a call, and wait for its reply: ``SandboxLost`` where there is none."""
        name = new_id("call")
        try:
            with anyio.fail_after(within_s):
                return await self.make(name, message)
        except TimeoutError:
            raise SandboxLost(f"sandbox {self.sandbox} did not answer within {within_s:.0f} s") from None
        finally:
            self.is_done_with(name)

    async def make(
        self, name: str, message: dict[str, Any], *, on_more: OnMore | None = None, most_bytes: int = MOST_BYTES
    ) -> Reply:
        """The same for a call that has a name already, so that others can follow or stop it.

        ``SandboxLost`` also for a reply of more than ``most_bytes``, which our supervisor would not give.
        """
        heard = await self._send(name, message, on_more, is_taken_enough=False)
        try:
            return await self._until_ended(name, heard, on_more, most_bytes)
        except Unknown:  # it may still be on its way, so it is not made again
            raise SandboxLost(f"a call did not reach sandbox {self.sandbox}") from None

    async def deliver(self, name: str, message: dict[str, Any]) -> None:
        """Make a call, and leave its reply to who follows it; returns when the box has it, else ``SandboxLost``."""
        heard = await self._send(name, message, None, is_taken_enough=True)
        while not heard:
            heard = await self._listen([], _follow(name), lambda: None, None, is_taken_enough=True)
        if heard in (_DEAD, "unknown"):
            raise SandboxLost(f"nothing could be started in sandbox {self.sandbox}")

    async def _send(self, name: str, message: dict[str, Any], on_more: OnMore | None, *, is_taken_enough: bool) -> str:
        done, self._done = self._done, []
        text = json.dumps({**message, "id": name, "done": done})
        arguments: list[str] = []
        if len(text) > _MOST_IN_VARIABLE:
            arguments = [self.path_for(name, "call")]
            await self.upload(Upload(arguments[0], text.encode(), 0o600))
            text = ""
        if message["op"] in _OF_PROGRAMS:
            self.require_free()
        async with self._delivering() as arrived:
            return await self._listen(arguments, text, arrived, on_more, is_taken_enough=is_taken_enough)

    async def follow(self, name: str, *, on_more: OnMore | None = None, most_bytes: int = MOST_BYTES) -> Reply:
        """Wait for the reply to a call that was made before, by whatever process; ``Unknown`` where it never came."""
        return await self._until_ended(name, "", on_more, most_bytes)

    def is_done_with(self, name: str) -> None:
        """Nobody needs the files of that call any more; the box hears of it with the next call."""
        self._done.append(name)

    async def _until_ended(self, name: str, heard: str, on_more: OnMore | None, most_bytes: int) -> Reply:
        while not heard:
            heard = await self._listen([], _follow(name), lambda: None, on_more)
        word, _, rest = heard.partition(" ")
        if word == "unknown":
            raise Unknown(name)
        if word == _DEAD:
            raise SandboxLost(f"the supervisor of sandbox {self.sandbox} is dead")
        if word == "told":
            return parsed(rest)
        if word != "ended":
            raise not_ours()
        return await self._fetch(rest, most_bytes)

    async def _listen(
        self,
        arguments: list[str],
        text: str,
        arrived: Callable[[], None],
        on_more: OnMore | None,
        *,
        is_taken_enough: bool = False,
    ) -> str:
        """Ring once, and return the last word; empty where the connection broke before that."""
        ear = _Ear(arrived, on_more, is_taken_enough=is_taken_enough)
        silent: Silent | None = None
        with ear.scope:
            try:
                await self.engine.run(self.sandbox, self._line(_RING, self.place, *arguments), {CALL: text}, ear.hear)
            except Silent as error:
                silent = error
            except NotThere:
                raise SandboxLost(f"sandbox {self.sandbox} is gone") from None
        if ear.scope.cancelled_caught and not ear.has_heard:
            raise SandboxLost(f"our supervisor in sandbox {self.sandbox} did not take a call within {_QUICK_S:.0f} s")
        if silent is not None and not ear.heard:
            await self.wait_for_contact(silent)
        await self._count(ear)
        return ear.heard

    async def _count(self, ear: _Ear) -> None:
        """A program may have removed what our own ones there run on, or put others in their place, which say nothing
        that would help us, again and again."""
        self._mute = 0 if ear.heard or ear.lasted_s > _AT_ONCE_S else self._mute + 1
        if self._mute > _MOST_MUTE:
            raise SandboxLost(f"our programs do not start any more in sandbox {self.sandbox}")
        if self._mute:
            await anyio.sleep(_REST_S)

    async def wait_for_contact(self, silent: Silent) -> None:
        """Return when the sandbox answers again; ``SandboxLost`` where it is gone, or does not for too long."""
        with anyio.move_on_after(PATIENCE_S):
            while not await self._is_there():
                await anyio.sleep(_REST_S)
            return
        raise SandboxLost(f"sandbox {self.sandbox} does not answer: {silent.message}")

    async def _is_there(self) -> bool:
        if await self.engine.answers(self.sandbox):
            return True
        try:
            found = await self.engine.find(self.sandbox)
        except Silent:
            return False
        if found is None or found.state == "gone":
            raise SandboxLost(f"sandbox {self.sandbox} is gone")
        return False

    def _line(self, program: str, *arguments: str) -> str:
        return f"exec {shlex.join([*self.python, '-c', program, *arguments])}"

    # -- what is on the way while a box is being paused ---------------------------------------------------------------

    @asynccontextmanager
    async def _delivering(self) -> AsyncIterator[Callable[[], None]]:
        """Until the supervisor has the call: sent to a box that is being paused, it would be delivered afterwards."""
        is_under_way = True
        self._on_the_way += 1

        def arrived() -> None:
            nonlocal is_under_way
            if is_under_way:
                is_under_way = False
                self._on_the_way -= 1

        try:
            yield arrived
        finally:
            arrived()

    def require_free(self) -> None:
        """``Held`` while the sandbox is paused."""
        if self.are_held:
            raise Held(f"sandbox {self.sandbox} is paused", remedy="resume it first")

    async def settle(self) -> None:
        """Wait until no call is on the way."""
        while self._on_the_way:
            await anyio.sleep(0.005)

    # -- files of ours ----------------------------------------------------------------------------------------------

    def path_for(self, name: str, kind: str) -> str:
        """Where a file for a call is put."""
        return f"{self.place}/{name}.{kind}"

    async def upload(self, *files: Upload) -> None:
        """Bring files; tried again where the connection breaks, as nothing comes of doing it twice."""
        breaks = 0
        try:
            with anyio.fail_after(TRANSFER_S):
                while True:
                    try:
                        return await self.engine.upload(self.sandbox, files)
                    except Silent as silent:
                        breaks += 1
                        await self._mend(silent, breaks)
        except NotThere:
            raise SandboxLost(f"sandbox {self.sandbox} is gone") from None
        except TimeoutError:
            raise SandboxLost(f"sandbox {self.sandbox} did not take a file within {TRANSFER_S:.0f} s") from None

    async def _fetch(self, path: str, most_bytes: int) -> Reply:
        """A reply, from its file."""
        data = bytearray()
        try:
            async with aclosing(self.download(path)) as pieces:
                async for piece in pieces:
                    data += piece
                    if len(data) > most_bytes:
                        raise not_ours()
        except TransferFailed:
            raise not_ours() from None
        header, _, payload = bytes(data).partition(b"\n")
        return parsed(header, payload)

    async def download(self, path: str, offset: int = 0) -> AsyncGenerator[bytes]:
        """A file in pieces, from an offset on; a break of the connection is mended."""
        breaks = 0
        while True:
            try:
                async with aclosing(self.engine.download(self.sandbox, path, offset)) as pieces:
                    async for piece in pieces:
                        offset, breaks = offset + len(piece), 0
                        yield piece
                return
            except Silent as silent:
                breaks += 1
                await self._mend(silent, breaks)
            except FileMissing:
                raise TransferFailed(f"{path} is not in the sandbox any more") from None
            except NotThere:
                raise SandboxLost(f"sandbox {self.sandbox} is gone") from None

    async def _mend(self, silent: Silent, breaks: int) -> None:
        """After a break: wait for the sandbox, and not for ever where nothing but this file does not come through."""
        await self.wait_for_contact(silent)
        if breaks > _MOST_MUTE:
            raise SandboxLost(f"sandbox {self.sandbox} does not let a file through: {silent.message}")
        await anyio.sleep(_REST_S)


class _Ear:
    """Listens to one ring: see ``station`` for its lines. ``scope`` ends when there is nothing more to hear."""

    def __init__(self, arrived: Callable[[], None], on_more: OnMore | None, *, is_taken_enough: bool) -> None:
        self._arrived = arrived
        self._on_more = on_more
        self._is_taken_enough = is_taken_enough
        self._began = anyio.current_time()
        self.scope = anyio.CancelScope(deadline=self._began + _QUICK_S)
        self.heard = ""
        self.has_heard = False

    @property
    def lasted_s(self) -> float:
        """Since it began."""
        return anyio.current_time() - self._began

    def hear(self, line: str) -> None:
        """One more line."""
        if not self.has_heard:
            self.has_heard = True
            self.scope.deadline = math.inf
        if line == "more":
            if self._on_more is not None:
                self._on_more()
        elif line == "taken":
            self._arrived()
            if self._is_taken_enough:
                self.heard = line
                self.scope.cancel()
        elif line:
            self.heard = line
            self.scope.deadline = anyio.current_time() + _LINGER_S
