"""An OpenSandbox server as an engine for remote boxes."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from io import IOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from swe_sdk.errors import CreateFailed, ProviderUnavailable, SandboxError, SnapshotNotFound
from swe_sdk.sandbox.contract import Limits, Network
from swe_sdk.sandbox.providers.opensandbox.client import Client, quieten, require_sdk
from swe_sdk.sandbox.providers.opensandbox.failures import asked, translated
from swe_sdk.sandbox.providers.opensandbox.settings import API_KEY, OpenSandboxSettings
from swe_sdk.sandbox.providers.remote.engine import (
    FoundSandbox,
    FoundSnapshot,
    OnLine,
    SandboxState,
    Traits,
    Upload,
    Wanted,
)
from swe_sdk.sandbox.providers.remote.failures import FileMissing, InUse, NotThere, Refused, Silent, struck
from swe_sdk.sandbox.providers.remote.making import make_ready
from swe_sdk.sandbox.providers.remote.per_loop import PerLoop
from swe_sdk.sandbox.providers.remote.settings import checked_key

if TYPE_CHECKING:
    from opensandbox.models.sandboxes import NetworkPolicy, SandboxInfo, SnapshotInfo

_READY_S = 60.0
_SNAPSHOT_S = 1800.0
_LOOK_S = 0.05
_PAGE, _MOST_PAGES = 100, 10_000
_STATES: dict[str, SandboxState] = {"running": "running", "pausing": "paused", "paused": "paused", "pending": "running"}
_EXECD_GRACE = {"EXECD_API_GRACE_SHUTDOWN": "5ms"}
"""By default it keeps each command's stream open for a second after its end."""
T = TypeVar("T", FoundSandbox, FoundSnapshot)


class OpenSandboxEngine:
    """One server. See :class:`swe_sdk.sandbox.providers.remote.engine.Engine` for what the methods do."""

    name = "opensandbox"

    def __init__(self, settings: OpenSandboxSettings, *, api_key: str | None = None) -> None:
        self._settings = settings
        self._api_key = (api_key or os.environ.get(API_KEY, "")).strip()
        self._asked = partial(asked, key=self._api_key)
        self._translated = partial(translated, key=self._api_key)
        self._clients = PerLoop(self._new_client)
        self.traits = Traits(
            snapshot_scope="files",
            pause_keeps_processes=settings.runtime == "docker",
            offline=settings.network == "policy",
            limits=frozenset({"memory_mib", "cpus"}),
            own_variables=("EXECD", "OPENSANDBOX_", "OPEN_SANDBOX_", "BOOTSTRAP_"),
        )

    @property
    def settings(self) -> Mapping[str, Any]:
        """All but the key, which every process has from its environment."""
        return self._settings.model_dump()

    async def introduce(self) -> dict[str, str]:
        """Which server it is, and that it lets us in."""
        try:
            client = await self._client()
            with self._asked("list sandboxes"):
                await client.connect()
                await client.lifecycle.list_sandboxes(_filter({}, page=1))
        except Silent as silent:
            raise ProviderUnavailable(
                f"no OpenSandbox server answers at {self._settings.domain}: {silent.message}",
                remedy="start one (opensandbox-server), or set OPEN_SANDBOX_DOMAIN to host:port",
            ) from None
        except SandboxError as error:
            raise ProviderUnavailable(error.message, remedy=error.remedy or f"check {API_KEY}") from None
        traits = {
            name: str(value) for name, value in self.traits.model_dump(exclude={"limits", "own_variables"}).items()
        }
        return {"server": self._settings.domain, "runtime": self._settings.runtime, **traits}

    # -- sandboxes --------------------------------------------------------------------------------------------------

    async def create(self, wanted: Wanted) -> str:
        """See the protocol."""
        try:
            return await make_ready(partial(self._made, wanted), self.answers, self.kill)
        except NotThere as gone:
            kind = CreateFailed if wanted.snapshot is None else SnapshotNotFound
            raise kind(gone.message) from gone

    async def _made(self, wanted: Wanted) -> str:
        client = await self._client()
        from opensandbox.sandbox import Sandbox

        with self._asked("create a sandbox"):
            made = await Sandbox.create(
                wanted.image,
                snapshot_id=wanted.snapshot,
                timeout=timedelta(seconds=wanted.ttl_s),
                ready_timeout=timedelta(seconds=_READY_S),
                env=dict(_EXECD_GRACE),
                metadata=dict(wanted.metadata),
                resource=_resources(wanted.limits, self._settings.memory_mib),
                network_policy=self._policy(wanted.network),
                connection_config=client.config,
                skip_health_check=True,
            )
        return str(made.id)

    def _policy(self, network: Network) -> NetworkPolicy | None:
        from opensandbox.models.sandboxes import NetworkPolicy

        if network == "host" or self._settings.network == "open":
            return None
        return NetworkPolicy(defaultAction="deny", egress=[])

    async def find(self, sandbox: str) -> FoundSandbox | None:
        """See the protocol."""
        with suppress(NotThere), self._asked("look at a sandbox"):
            return _found(await (await self._client()).lifecycle.get_sandbox_info(sandbox))
        return None

    async def answers(self, sandbox: str) -> bool:
        """See the protocol. Twice, as a connection that was kept may have been closed at its other end."""
        try:
            with self._asked("ping a sandbox"):
                health = (await (await self._client()).inside(sandbox)).health
                return await health.ping(sandbox) or await health.ping(sandbox)
        except SandboxError:
            return False

    async def kill(self, sandbox: str) -> None:
        """See the protocol."""
        client = await self._client()
        client.forget(sandbox)
        with suppress(NotThere), self._asked("kill a sandbox"):
            await client.lifecycle.kill_sandbox(sandbox)

    async def renew(self, sandbox: str, ttl_s: float) -> None:
        """See the protocol."""
        until = datetime.now(UTC) + timedelta(seconds=ttl_s)
        with self._asked("renew a sandbox"):
            await (await self._client()).lifecycle.renew_sandbox_expiration(sandbox, until)

    async def relabel(self, sandbox: str, metadata: Mapping[str, str]) -> None:
        """See the protocol."""
        with self._asked("label a sandbox"):
            await (await self._client()).lifecycle.patch_sandbox_metadata(sandbox, dict(metadata))

    async def pause(self, sandbox: str) -> None:
        """See the protocol."""
        try:
            with self._asked("pause a sandbox"):
                await (await self._client()).lifecycle.pause_sandbox(sandbox)
        except InUse:
            await self._require(sandbox, "paused")

    async def resume(self, sandbox: str) -> None:
        """See the protocol."""
        client = await self._client()
        client.forget(sandbox)
        try:
            with self._asked("resume a sandbox"):
                await client.lifecycle.resume_sandbox(sandbox)
        except InUse:
            await self._require(sandbox, "running")

    async def _require(self, sandbox: str, state: SandboxState) -> None:
        """That it was in that state already."""
        found = await self.find(sandbox)
        if found is None or found.state != state:
            raise Refused(f"sandbox {sandbox} is {found.state if found else 'gone'} instead of {state}")

    async def sandboxes(self, metadata: Mapping[str, str]) -> list[FoundSandbox]:
        """See the protocol."""
        client = await self._client()

        async def look(page: int) -> tuple[list[FoundSandbox], bool]:
            listed = await client.lifecycle.list_sandboxes(_filter(metadata, page=page))
            return [_found(info) for info in listed.sandbox_infos], listed.pagination.has_next_page

        # what a server tells of others as well is nobody's here: what is found by its metadata may be ended
        found = await self._every_page("list sandboxes", look)
        return [one for one in found if metadata.items() <= one.metadata.items()]

    async def _every_page(self, what: str, look: Callable[[int], Awaitable[tuple[list[T], bool]]]) -> list[T]:
        """Each thing once; ``Refused`` where pages come to no end."""
        found: dict[str, T] = {}
        for page in range(1, _MOST_PAGES + 1):
            with self._asked(what):
                told, has_more = await look(page)
            fresh = {one.id: one for one in told if one.id not in found}
            found |= fresh
            if not has_more:
                return list(found.values())
            if not fresh:
                break
        raise Refused(f"OpenSandbox could not {what}: there is no end of them")

    # -- in a sandbox -----------------------------------------------------------------------------------------------

    async def run(self, sandbox: str, line: str, env: Mapping[str, str], on_line: OnLine) -> None:
        """See the protocol."""
        client = await self._client()
        from opensandbox.models.execd import ExecutionHandlers, OutputMessage, RunCommandOpts

        async def hear(message: OutputMessage) -> None:
            for one in message.text.splitlines():
                on_line(one)

        with self._translated("run a command"):
            inside = await client.inside(sandbox)
            handlers = ExecutionHandlers(on_stdout=hear, skip_accumulation=True)
            await inside.commands.run(line, opts=RunCommandOpts(envs=dict(env)), handlers=handlers)

    async def upload(self, sandbox: str, files: Sequence[Upload]) -> None:
        """See the protocol."""
        client = await self._client()
        from opensandbox.models.filesystem import WriteEntry

        with ExitStack() as opened, self._translated("write files"):
            inside = await client.inside(sandbox)
            # the mode is a number that looks like the octal one
            await inside.files.write_files(
                [WriteEntry(path=one.path, data=_content(one, opened), mode=int(f"{one.mode:o}")) for one in files]
            )

    async def download(self, sandbox: str, path: str, offset: int = 0) -> AsyncGenerator[bytes]:
        """See the protocol."""
        with self._translated("read a file"):
            inside = await (await self._client()).inside(sandbox)
        try:
            with self._translated("read a file"):
                pieces = await inside.files.read_bytes_stream(
                    path, range_header=f"bytes={offset}-" if offset else None, chunk_size=1 << 18
                )
        except NotThere as missing:
            raise FileMissing(missing.message) from missing
        except Refused as refused:
            if refused.status == 416:  # it is no longer than that
                return
            raise
        with self._translated("read a file"):
            async for piece in pieces:
                yield piece

    # -- snapshots --------------------------------------------------------------------------------------------------

    async def snapshot(self, sandbox: str, name: str) -> FoundSnapshot:
        """See the protocol."""
        client = await self._client()
        from opensandbox.models.sandboxes import CreateSnapshotRequest

        with anyio.CancelScope(shield=True):  # nobody would know of a half of it
            with self._asked("freeze a sandbox"):
                info = await client.lifecycle.create_snapshot(sandbox, CreateSnapshotRequest(name=name))
            whole = await self._whole(client, info.id)
        return whole

    async def _whole(self, client: Client, snapshot: str) -> FoundSnapshot:
        with anyio.move_on_after(_SNAPSHOT_S):
            while True:
                with self._asked("look at a snapshot"):
                    info = await client.lifecycle.get_snapshot(snapshot)
                if info.status.state.lower() == "ready":
                    return _found_snapshot(info)
                if info.status.state.lower() == "failed":
                    await self.delete_snapshot(snapshot)
                    reason = struck(str(info.status.message), [self._api_key])
                    raise Refused(f"OpenSandbox could not freeze a sandbox: {reason}")
                await anyio.sleep(_LOOK_S)
        raise Silent(f"snapshot {snapshot} was not made within {_SNAPSHOT_S:.0f} s")

    async def snapshots(self, name: str | None = None) -> list[FoundSnapshot]:
        """See the protocol."""
        client = await self._client()
        from opensandbox.models.sandboxes import SnapshotFilter

        async def look(page: int) -> tuple[list[FoundSnapshot], bool]:
            listed = await client.lifecycle.list_snapshots(SnapshotFilter(name=name, page=page, page_size=_PAGE))
            return [_found_snapshot(info) for info in listed.snapshot_infos], listed.pagination.has_next_page

        return [one for one in await self._every_page("list snapshots", look) if name in (None, one.name)]

    async def delete_snapshot(self, snapshot: str) -> None:
        """See the protocol."""
        with suppress(NotThere), self._asked("delete a snapshot"):
            await (await self._client()).lifecycle.delete_snapshot(snapshot)

    # -- the end ----------------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """See the protocol."""
        await self._clients.aclose()

    def forget(self) -> None:
        """Nothing to do: connections are those of an event loop, and the child has none."""

    async def _client(self) -> Client:
        require_sdk()
        quieten()
        return await self._clients.get()

    def _new_client(self) -> Client:
        return Client(self._settings, checked_key(self._api_key, API_KEY) or None)


def _filter(metadata: Mapping[str, str], *, page: int) -> Any:
    from opensandbox.models.sandboxes import SandboxFilter

    return SandboxFilter(metadata=dict(metadata) or None, page=page, page_size=_PAGE)


def _found(info: SandboxInfo) -> FoundSandbox:
    return FoundSandbox(info.id, info.metadata or {}, _STATES.get(info.status.state.lower(), "gone"))


def _found_snapshot(info: SnapshotInfo) -> FoundSnapshot:
    is_ready = info.status.state.lower() == "ready"
    return FoundSnapshot(info.id, info.name or "", round(info.created_at.timestamp(), 3), is_ready)


def _resources(limits: Limits, default_memory_mib: int) -> dict[str, str]:
    resources = {"memory": f"{limits.memory_mib or default_memory_mib}Mi"}
    return resources if limits.cpus is None else {**resources, "cpu": f"{round(limits.cpus * 1000)}m"}


def _content(upload: Upload, opened: ExitStack) -> bytes | IOBase:
    if isinstance(upload.data, bytes):
        return upload.data
    return opened.enter_context(Path(upload.data).open("rb"))
