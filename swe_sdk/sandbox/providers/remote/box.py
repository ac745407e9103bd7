"""One box of a remote system."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Unpack

import anyio

from swe_sdk.errors import InputError, SandboxClosed, SandboxError, SandboxLost
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.ids import new_id
from swe_sdk.sandbox import transfers, users
from swe_sdk.sandbox.admission import Slot
from swe_sdk.sandbox.closing import end_leased
from swe_sdk.sandbox.contract import DEFAULT_OUTPUT_BYTES, BoxStatus, ExecOptions, OnOutput, Process, SandboxSpec
from swe_sdk.sandbox.exec_client import ExecRequest, KillUnconfirmed, RunAs
from swe_sdk.sandbox.leases import LABEL_LEASE, Lease
from swe_sdk.sandbox.providers.remote import execution, moving
from swe_sdk.sandbox.providers.remote.calls import Calls, Unknown
from swe_sdk.sandbox.providers.remote.engine import Traits
from swe_sdk.sandbox.providers.remote.replies import Facts, Failure, Living, Reply
from swe_sdk.sandbox.supervised import BASE_ENV

if TYPE_CHECKING:
    from swe_sdk.sandbox.providers.remote.provider import RemoteProvider

_STATUS_S = 10.0
_UNDO_S = 10.0


class RemoteBox:
    """A sandbox of a remote system, with our supervisor in it. Made by ``RemoteProvider.create`` or ``adopt``."""

    def __init__(self, provider: RemoteProvider, spec: SandboxSpec, box_id: str, lease: Lease) -> None:
        self._provider = provider
        self._spec = spec
        self._id = box_id
        self.lease = lease
        self.slot: Slot | None = None
        self._calls: Calls | None = None
        self.is_closed = False
        self.is_lost = False
        """Whether a call has found it dead."""
        self._default: RunAs | None = None
        self._env: dict[str, str] = {}
        self._shell = "/bin/sh"
        self.freezing = anyio.Lock()
        """Held while a snapshot is made of it, or its state changes."""
        self._ending = anyio.Lock()
        self._uses = 0

    @property
    def id(self) -> str:
        """Unique among all boxes."""
        return self._id

    @property
    def spec(self) -> SandboxSpec:
        """What it was made from."""
        return self._spec

    @property
    def is_used(self) -> bool:
        """Whether a call or a transfer is under way."""
        return self._uses > 0

    @property
    def is_paused(self) -> bool:
        """Whether we paused it."""
        return self._calls is not None and self._calls.are_held

    @property
    def handle(self) -> str:
        """The system's id of it. ``SandboxLost`` where it never had one."""
        return self.calls.sandbox

    def stands_on(self, sandbox: str) -> bool:
        """Whether that is the system's id of it."""
        return self._calls is not None and self._calls.sandbox == sandbox

    @property
    def calls(self) -> Calls:
        """To its supervisor. ``SandboxClosed`` or ``SandboxLost`` where there is none any more."""
        if self.is_closed:
            raise SandboxClosed(f"box {self._id} is closed")
        if self._calls is None or self.is_lost:
            raise SandboxLost(f"box {self._id} is dead")
        return self._calls

    def serve_by(self, calls: Calls) -> None:
        """Its supervisor is there."""
        self._calls = calls

    @property
    def traits(self) -> Traits:
        """What its system can do."""
        return self._provider.engine.traits

    # -- commands ---------------------------------------------------------------------------------------------------

    async def exec(self, command: str | Sequence[str], **options: Unpack[ExecOptions]) -> ExecResult:
        """See :meth:`swe_sdk.sandbox.contract.Box.exec`."""
        async with self._provider.admission.exec(self._id), self._used() as calls:
            request = await self._request(command, **options)
            return await self._known(execution.run(calls, new_id("exec"), request))

    async def start(self, command: str | Sequence[str], **options: Unpack[ExecOptions]) -> str:
        """Begin a command that goes on without us, whatever becomes of this process or of the system's server.

        Options as for :meth:`exec`; its time begins with :meth:`result`. Returns its name, with which any process that
        has adopted the box can ask for that.
        """
        name = new_id("exec")
        async with self._used() as calls:
            message = await execution.command_message(calls, name, await self._request(command, **options))
            await calls.deliver(name, {**message, "live": True})
        return name

    async def result(
        self, name: str, *, timeout_s: float | None = None, on_output: OnOutput | None = None
    ) -> ExecResult:
        """Wait for a command that was started, and end it where it takes longer than ``timeout_s`` from now on.

        A call that is cancelled leaves it running. ``on_output`` is given all that it has printed from the beginning.
        ``InputError`` where the box has no such command, or its result was fetched before.
        """
        async with self._used() as calls:
            try:
                return await self._known(execution.await_result(calls, name, timeout_s=timeout_s, on_output=on_output))
            except Unknown:
                raise InputError(f"box {self._id} has no command {name!r}") from None

    async def _known(self, ending: Awaitable[ExecResult]) -> ExecResult:
        """Its result; where its processes may live on, the box is ended."""
        try:
            result = await ending
        except KillUnconfirmed as unconfirmed:
            await self.stop()
            return unconfirmed.result
        self.is_lost = self.is_lost or result.status == "lost"
        return result

    async def _request(self, command: str | Sequence[str], **options: Unpack[ExecOptions]) -> ExecRequest:
        person = await self._person(options.get("user"))
        cwd = options.get("cwd")
        return ExecRequest(
            argv=[self._shell, "-c", command] if isinstance(command, str) else list(command),
            cwd=os.path.join(self._spec.workdir, cwd) if cwd else self._spec.workdir,
            env={**BASE_ENV, **person.env, **self._env, **self._spec.env, **(options.get("env") or {})},
            run_as=None if person is self._default else person,
            stdin=options.get("stdin"),
            timeout_s=options.get("timeout_s"),
            output_bytes=options.get("output_bytes", DEFAULT_OUTPUT_BYTES),
            merge_stderr=options.get("merge_stderr", False),
            on_output=options.get("on_output"),
        )

    async def _person(self, user: str | None) -> RunAs:
        """Who a command runs as; learns what the box is like, the first time."""
        if self._default is None:
            facts = (await self._ask({"op": "facts"})).read(Facts)
            own = self.traits.own_variables
            self._env = {name: value for name, value in facts.env.items() if not name.startswith(own)}
            self._shell = "/bin/bash" if facts.bash else "/bin/sh"
            self._default = await self._resolve(str(facts.uid))
        return self._default if user in (None, "agent") else await self._resolve(str(user))

    async def _resolve(self, user: str) -> RunAs:
        return await users.look_up(user, partial(transfers.read, self._transfer))

    async def processes(self) -> list[Process]:
        """Everything that runs in it; not the system's own programs."""
        async with self._used():
            return await self.alive()

    async def alive(self) -> list[Process]:
        """The same, for who holds other calls back."""
        return (await self._ask({"op": "processes"})).read(Living).processes

    async def renew(self, ttl_s: float) -> None:
        """Let it live so long from now on. The provider does so for all of its boxes, again and again."""
        await self._provider.engine.renew(self.handle, ttl_s)

    # -- pausing ----------------------------------------------------------------------------------------------------

    async def pause(self) -> None:
        """Stop every process, and then the whole sandbox where its system keeps processes over that."""
        async with self.freezing:
            if self.is_paused:
                return
            self.calls.are_held = True
            try:
                await self.calls.settle()  # a call that is delivered to a paused box runs when it is resumed
                await self._ask({"op": "pause"})
                await self.halt()
            except BaseException:
                with anyio.move_on_after(_UNDO_S, shield=True):
                    await self._resume()
                raise

    async def resume(self) -> None:
        """Continue them."""
        async with self.freezing:
            await self._resume()

    async def _resume(self) -> None:
        await self.unhalt()
        await self._ask({"op": "resume"})
        self.calls.are_held = False

    async def halt(self) -> None:
        """Have the system freeze it, in which our supervisor has stopped all programs."""
        if self.traits.pause_keeps_processes:
            await self._provider.engine.pause(self.handle)

    async def unhalt(self) -> None:
        """Have the system let it go on; its programs stay stopped."""
        if self.traits.pause_keeps_processes:
            await self._provider.engine.resume(self.handle)

    # -- files ------------------------------------------------------------------------------------------------------

    async def read(self, path: str) -> bytes:
        """The content of a regular file."""
        async with self._used():
            return await transfers.read(self._transfer, path)

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Create or replace a file."""
        async with self._used():
            await transfers.write(self._transfer, path, data, mode)

    async def upload(self, local: Path, remote: str) -> None:
        """Copy a file in."""
        async with self._used():
            await transfers.upload(self._transfer, local, remote)

    async def download(self, remote: str, local: Path) -> None:
        """Copy a file out."""
        async with self._used():
            await transfers.download(self._transfer, remote, local)

    async def _transfer(self, operation: str, path: str, file: BinaryIO, **options: Any) -> dict[str, Any]:
        return await moving.transfer(self.calls, operation, os.path.join(self._spec.workdir, path), file, **options)

    # -- its end ----------------------------------------------------------------------------------------------------

    async def status(self) -> BoxStatus:
        """From the system, and from our supervisor: a system may call one running in which nobody answers any more."""
        if self.is_closed:
            return "stopped"
        if self.is_lost or self._calls is None:
            return "lost"
        try:
            with anyio.fail_after(_STATUS_S):
                if self.is_paused and self.traits.pause_keeps_processes:
                    found = await self._provider.engine.find(self.handle)
                    return "lost" if found is None or found.state == "gone" else "paused"
                if not await self._provider.engine.answers(self.handle):
                    return "lost"
                await self._calls.ask({"op": "facts"})
        except (SandboxError, TimeoutError):
            return "lost"
        return "paused" if self.is_paused else "running"

    async def stop(self) -> None:
        """Kill every process in it, by ending the sandbox; also one whose id was lost with the system's answer."""
        self.is_lost = True
        engine = self._provider.engine
        if self._calls is not None:
            await engine.kill(self._calls.sandbox)
            return
        for found in await engine.sandboxes({LABEL_LEASE: self.lease.id}):
            await engine.kill(found.id)

    async def close(self) -> None:
        """Remove the sandbox. Runs to its end even if the caller is cancelled.

        Where the system does not answer the box counts as closed all the same: its lease stays, for the reaper.
        """
        with anyio.CancelScope(shield=True):
            async with self._ending:
                if self.is_closed:
                    return
                self.is_closed = True
                try:
                    await end_leased(self._id, self.stop, self._provider.leases, self.lease)
                finally:
                    self.let_go()

    def let_go(self) -> None:
        """Give back what it holds here, and know it no more; the sandbox stays as it is, for who adopts it."""
        self.is_closed = True
        if self.slot is not None:
            self.slot.release()
        self._provider.boxes.pop(self._id, None)

    # -- calls ------------------------------------------------------------------------------------------------------

    async def _ask(self, message: dict[str, Any]) -> Reply:
        reply = await self.calls.ask(message)
        if reply.event == "error":
            raise SandboxError(f"{message['op']} failed in box {self._id}: {reply.read(Failure).error}")
        return reply

    @asynccontextmanager
    async def _used(self) -> AsyncIterator[Calls]:
        """A call or a transfer. It waits while the box is being frozen, and is refused while it is paused: a system
        may keep what is sent to a paused sandbox, and run it later."""
        while self.freezing.locked() and not (self.is_closed or self.is_paused):
            async with self.freezing:
                pass
        calls = self.calls
        calls.require_free()
        self._uses += 1
        try:
            yield calls
        except SandboxLost:
            if self.is_closed:
                raise SandboxClosed(f"box {self._id} was closed meanwhile") from None
            self.is_lost = True
            raise
        except execution.CallersError as raised:
            raise raised.error from raised.error.__cause__  # as the caller has raised it
        finally:
            self._uses -= 1
