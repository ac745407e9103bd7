"""A system with E2B's wire as an engine for remote boxes."""

from __future__ import annotations

import shlex
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from swe_sdk.errors import CreateFailed, ImageNotFound, ProviderUnavailable, SandboxError, SnapshotNotFound
from swe_sdk.sandbox.providers.e2b.answers import PASSING
from swe_sdk.sandbox.providers.e2b.envd import Address, Envd
from swe_sdk.sandbox.providers.e2b.http import PAUSES_S, Connections
from swe_sdk.sandbox.providers.e2b.lines import Lines
from swe_sdk.sandbox.providers.e2b.naming import found_snapshot, is_called, new_wire_name, snapshot_id
from swe_sdk.sandbox.providers.e2b.relabelling import Relabelling
from swe_sdk.sandbox.providers.e2b.rest import Rest
from swe_sdk.sandbox.providers.e2b.settings import API_KEY, E2BSettings
from swe_sdk.sandbox.providers.e2b.shapes import Sandbox, Snapshot
from swe_sdk.sandbox.providers.remote.engine import (
    FoundSandbox,
    FoundSnapshot,
    OnLine,
    SandboxState,
    Traits,
    Upload,
    Wanted,
)
from swe_sdk.sandbox.providers.remote.failures import InUse, NotThere, Refused, RemoteTrouble, Silent
from swe_sdk.sandbox.providers.remote.making import make_ready

_USUAL_MODE = 0o644
"""What envd gives to a new file."""
_MOST_ADDRESSES = 10_000
_BAD_REQUEST = 400
_PATHS_IN_A_LINE = 200


class E2BEngine:
    """One system. See :class:`swe_sdk.sandbox.providers.remote.engine.Engine` for what the methods do."""

    name = "e2b"

    def __init__(self, settings: E2BSettings, labels: Path, *, ttl_s: float, api_key: str | None = None) -> None:
        """``labels``: a directory of this machine, for what the system cannot note. ``ttl_s``: what a resumed sandbox
        has to live, as the system wants to be told that."""
        self._settings = settings
        self._connections = Connections(settings.request_timeout_s)
        self._rest = Rest(settings, api_key, self._connections)
        self._envd = Envd(self._connections, settings.user)
        self._labels = Relabelling(labels)
        self._addresses: dict[str, Address] = {}
        self._ttl_s = ttl_s

    @property
    def traits(self) -> Traits:
        """Of its dialect; of the one that can do less, as long as nobody has asked it."""
        is_e2b = self._rest.known_dialect == "e2b"
        return Traits(
            snapshot_scope=self._settings.snapshot_scope if is_e2b else "memory",
            pause_keeps_processes=True,
            byte_exact_output=True,
            offline=True,
            own_variables=("E2B_",),
        )

    @property
    def settings(self) -> Mapping[str, Any]:
        """All but the key, which every process has from its environment."""
        return self._settings.model_dump()

    async def introduce(self) -> dict[str, str]:
        """Which dialect it speaks, and that it lets us in."""
        try:
            dialect = await self._rest.dialect()
            async for _ in self._rest.sandboxes({"swe_sdk.kind": "nothing"}):
                break
        except Silent as silent:
            remedy = "set E2B_API_URL to the address of the system, or E2B_DOMAIN to its domain"
            raise ProviderUnavailable(silent.message, remedy=remedy) from None
        except SandboxError as error:
            raise ProviderUnavailable(error.message, remedy=error.remedy or f"check {API_KEY}") from None
        return {"api": self._settings.control, "dialect": dialect, "snapshots": self.traits.snapshot_scope}

    # -- sandboxes --------------------------------------------------------------------------------------------------

    async def create(self, wanted: Wanted) -> str:
        """See the protocol."""
        return await make_ready(partial(self._made, wanted), self._is_healthy, self.kill)

    async def _made(self, wanted: Wanted) -> str:
        """Its id. Where the answer is lost, what came of the request is found by its metadata, which are its alone."""
        try:
            told = await self._created(wanted)
        except Silent as silent:
            found = await self.sandboxes(wanted.metadata)
            if not found:
                raise CreateFailed(silent.message, remedy=silent.remedy) from silent
            return found[0].id
        except RemoteTrouble as trouble:
            raise self._creation_failure(wanted, trouble) from trouble
        self._remember(told)
        return told["sandboxID"]

    async def _created(self, wanted: Wanted) -> Sandbox:
        """What the system says of it; a busy one is asked again, by a request that it can tell is the same."""
        key = str(uuid.uuid4())
        for pause_s in PAUSES_S:
            try:
                return await self._rest.create(wanted, key)
            except Refused as refused:
                if refused.status not in PASSING:
                    raise
            await anyio.sleep(pause_s)
        return await self._rest.create(wanted, key)

    def _creation_failure(self, wanted: Wanted, trouble: RemoteTrouble) -> SandboxError:
        """E2B answers 404 where it has no such template; AgentENV 400, and as well for an image that is nowhere."""
        is_bad_request = getattr(trouble, "status", 0) == _BAD_REQUEST
        if isinstance(trouble, NotThere) or (is_bad_request and self._rest.known_dialect == "agentenv"):
            if wanted.snapshot is not None:
                return SnapshotNotFound(trouble.message)
            return ImageNotFound(trouble.message, remedy="is there a template of that name? see SWE_SDK_E2B_TEMPLATE")
        return CreateFailed(trouble.message, remedy=trouble.remedy)

    async def _is_healthy(self, sandbox: str) -> bool:
        return await self._envd.is_healthy(await self.address(sandbox))

    async def find(self, sandbox: str) -> FoundSandbox | None:
        """See the protocol."""
        with suppress(NotThere):
            return self._found(await self._rest.sandbox(sandbox))
        return None

    def _found(self, told: Sandbox) -> FoundSandbox:
        sandbox = told["sandboxID"]
        metadata = {str(name): str(value) for name, value in (told.get("metadata") or {}).items()}
        state: SandboxState = "paused" if told.get("state") == "paused" else "running"
        return FoundSandbox(sandbox, self._labels.applied(sandbox, metadata), state)

    async def relabel(self, sandbox: str, metadata: Mapping[str, str]) -> None:
        """On this machine: see :mod:`swe_sdk.sandbox.providers.e2b.relabelling`."""
        await anyio.to_thread.run_sync(self._labels.note, sandbox, metadata)

    async def answers(self, sandbox: str) -> bool:
        """Whether its envd starts a program."""
        try:
            await self.run(sandbox, "true", {}, lambda _line: None)
        except RemoteTrouble:
            return False
        return True

    async def kill(self, sandbox: str) -> None:
        """See the protocol."""
        with suppress(NotThere):
            await self._rest.kill(sandbox)
        self._addresses.pop(sandbox, None)
        self._labels.forget(sandbox)

    async def renew(self, sandbox: str, ttl_s: float) -> None:
        """A paused one has no time that could run out, and cannot be renewed."""
        try:
            await self._rest.renew(sandbox, ttl_s)
        except NotThere:
            await self._require_paused(sandbox)

    async def pause(self, sandbox: str) -> None:
        """In place, with its memory."""
        try:
            await self._rest.pause(sandbox)
        except InUse:
            await self._require_paused(sandbox)

    async def _require_paused(self, sandbox: str) -> None:
        found = await self.find(sandbox)
        if found is None:
            raise NotThere(f"sandbox {sandbox} is gone")
        if found.state != "paused":
            raise Refused(f"sandbox {sandbox} is {found.state}, not paused")

    async def resume(self, sandbox: str) -> None:
        """In place. Its address may be another one from then on."""
        self._remember(await self._rest.connect(sandbox, self._ttl_s))

    async def sandboxes(self, metadata: Mapping[str, str]) -> list[FoundSandbox]:
        """By the metadata that it was made with."""
        found = {told["sandboxID"]: self._found(told) async for told in self._rest.sandboxes(metadata)}
        return list(found.values())

    # -- in a sandbox -----------------------------------------------------------------------------------------------

    async def run(self, sandbox: str, line: str, env: Mapping[str, str], on_line: OnLine) -> None:
        """By ``/bin/sh``, and without the profile of any user."""
        lines = Lines(on_line)
        async with aclosing(self._envd.start(await self.address(sandbox), ["/bin/sh", "-c", line], env)) as output:
            async for data in output:
                lines.feed(data)

    async def upload(self, sandbox: str, files: Sequence[Upload]) -> None:
        """See the protocol. Modes are set afterwards, where they are not what envd gives."""
        address = await self.address(sandbox)
        await self._envd.upload(address, [(file.path, file.data) for file in files])
        for mode in {file.mode for file in files} - {_USUAL_MODE}:
            paths = [file.path for file in files if file.mode == mode]
            for begin in range(0, len(paths), _PATHS_IN_A_LINE):
                line = f"chmod {mode:o} {shlex.join(paths[begin : begin + _PATHS_IN_A_LINE])}"
                await self.run(sandbox, line, {}, lambda _line: None)

    async def download(self, sandbox: str, path: str, offset: int = 0) -> AsyncGenerator[bytes]:
        """See the protocol."""
        async with aclosing(self._envd.download(await self.address(sandbox), path, offset)) as pieces:
            async for piece in pieces:
                yield piece

    async def address(self, sandbox: str) -> Address:
        """Where its envd is: known of those that this process has made; of others the system tells it."""
        return self._addresses.get(sandbox) or self._remember(await self._rest.sandbox(sandbox))

    def _remember(self, told: Sandbox) -> Address:
        sandbox = told["sandboxID"]
        url = self._settings.address_of(sandbox, told.get("domain"))
        if len(self._addresses) >= _MOST_ADDRESSES:
            self._addresses.clear()
        address = self._addresses[sandbox] = Address(sandbox, url, told.get("envdAccessToken") or "")
        return address

    # -- snapshots --------------------------------------------------------------------------------------------------

    async def snapshot(self, sandbox: str, name: str) -> FoundSnapshot:
        """Of its files alone, or with its memory, as :attr:`traits` say."""
        wire_name = new_wire_name(name)
        with anyio.CancelScope(shield=True):  # nobody would know of a half of it
            told = await self._frozen(sandbox, wire_name)
        found = found_snapshot(told)
        if found is None:
            await self.delete_snapshot(snapshot_id(told))
            raise Refused(f"a snapshot of sandbox {sandbox} was not given the name {wire_name}")
        return found

    async def _frozen(self, sandbox: str, wire_name: str) -> Snapshot:
        """What the system says of it. Where that is lost, what came of the request is found by its name."""
        try:
            return await self._rest.snapshot(sandbox, wire_name, with_memory=self.traits.snapshot_scope == "memory")
        except Silent:
            async for told in self._rest.snapshots():
                if is_called(told, wire_name):
                    return told
            raise

    async def snapshots(self, name: str | None = None) -> list[FoundSnapshot]:
        """All pages, also for one name: what the system calls a snapshot is our name and a moment."""
        found = {snapshot_id(told): found_snapshot(told) async for told in self._rest.snapshots()}
        return [one for one in found.values() if one is not None and name in (None, one.name)]

    async def delete_snapshot(self, snapshot: str) -> None:
        """See the protocol."""
        with suppress(NotThere):
            await self._rest.delete_snapshot(snapshot)

    # -- the end ----------------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """See the protocol."""
        await self._connections.aclose()

    def forget(self) -> None:
        """Nothing to do: connections are those of an event loop, and the child has none."""
