"""A live sandbox as users see it: on a task, an environment or nothing at all."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from swe_sdk.errors import CapabilityMissing, InputError, SandboxClosed, TransferFailed
from swe_sdk.model.environment import Environment, ImageEnvironment, SourceEnvironment
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import Task
from swe_sdk.sandbox import contract, environments
from swe_sdk.sandbox.arguments import encoded, require
from swe_sdk.sandbox.base import pin_base, pin_base_in_new_box
from swe_sdk.sandbox.contract import BoxStatus, Limits, Network, OnOutput, Process, SandboxProvider, Snapshot
from swe_sdk.sandbox.environments import OnProgress
from swe_sdk.sandbox.lent_environment import hide_tests
from swe_sdk.sandbox.prepared import HEAD, PreparedEnvironment
from swe_sdk.sandbox.registry import get_provider
from swe_sdk.sandbox.stat_cache import refresh_index
from swe_sdk.sandbox.tree import take_patch_whatever
from swe_sdk.sandbox.whole_output import WholeOutput
from swe_sdk.shown import Shown, one_line


async def prepare(
    target: Task | Environment, *, provider: SandboxProvider | str = "auto", on_progress: OnProgress | None = None
) -> PreparedEnvironment:
    """Build the environment of a task, if it is not there yet, so that its sandboxes start at once.

    ``on_progress`` is called with a word on each build step. Raises ``ProviderUnavailable``, ``MissingTool``,
    ``CapabilityMissing``, ``BuildFailed`` or a ``SandboxError``.
    """
    _require_target(target)
    require(provider=provider, on_progress=on_progress)
    environment = target.environment if isinstance(target, Task) else target
    return await environments.prepare(await get_provider(provider), environment, on_progress=on_progress)


def _require_target(target: object) -> None:
    """``InputError`` for what no box can be made of, such as the name of a task."""
    if not isinstance(target, Task | SourceEnvironment | ImageEnvironment | PreparedEnvironment | None):
        remedy = "give a task of swe.load_tasks(...), or an environment, such as swe.ImageEnvironment(image=...)"
        raise InputError(f"{target!r:.200} is neither a task nor an environment", remedy=remedy)


class Sandbox(Shown):
    """A box of a task's environment, open between ``async with`` and its end (or ``start`` and ``close``).

    ``target`` is a task, an environment (built on first use), a prepared environment, or None for the provider's bare
    base system. ``snapshot`` is what an earlier ``snapshot()`` of the same target returned.
    """

    def __init__(
        self,
        target: Task | Environment | PreparedEnvironment | None = None,
        *,
        provider: SandboxProvider | str = "auto",
        snapshot: Snapshot | str | None = None,
        env: Mapping[str, str] | None = None,
        network: Network = "none",
        limits: Limits | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        _require_target(target)
        require(provider=provider, snapshot=snapshot, env=env, network=network, limits=limits, on_progress=on_progress)
        self._target = target.environment if isinstance(target, Task) else target
        self._wanted_provider = provider
        self._snapshot_id = snapshot.id if isinstance(snapshot, Snapshot) else snapshot
        self._env = dict(env or {})
        self._network: Network = network
        self._limits = limits or Limits()
        self._on_progress = on_progress
        self._provider: SandboxProvider | None = None
        self._prepared = PreparedEnvironment(key="")
        self._box: contract.Box | None = None
        self._is_closed = False

    # -- lifecycle --------------------------------------------------------------------------------------------------

    async def start(self) -> Sandbox:
        """Build the environment if need be, and bring up the box, unless it is up already (a fork is).

        Raises ``SandboxClosed`` after ``close``; ``PrerequisiteError``, ``BuildFailed`` or a ``SandboxError`` where
        there can be no box.
        """
        if self._is_closed:
            raise SandboxClosed("the sandbox is closed", remedy="make a new one")
        if self._box is not None:
            return self
        provider = await get_provider(self._wanted_provider)
        if isinstance(self._target, SourceEnvironment | ImageEnvironment):
            self._prepared = await environments.prepare(provider, self._target, on_progress=self._on_progress)
        elif self._target is not None:
            self._prepared = self._target
        if self._snapshot_id:
            self._prepared = await pin_base_in_new_box(provider, self._prepared)
        spec = self._prepared.spec()
        changes: dict[str, Any] = {
            "snapshot": self._snapshot_id or spec.snapshot,
            "env": {**spec.env, **self._env},
            "network": self._network,
            "limits": self._limits,
        }
        self._box = await provider.create(spec.model_copy(update=changes))
        self._provider = provider
        try:
            if self._snapshot_id:
                await self._refresh_index()
            else:
                await hide_tests(self._box, self._hidden)
                self._prepared = await pin_base(self._box, self._prepared)
        except BaseException:
            await self.close()  # who is not let in cannot close it
            raise
        return self

    @property
    def _hidden(self) -> tuple[str, ...]:
        """Paths of the image that hold hidden tests."""
        return self._target.hidden if isinstance(self._target, ImageEnvironment) else ()

    async def _refresh_index(self) -> None:
        if self.base_commit and await self.status() == "running":
            await refresh_index(self.box, self.workdir)

    async def close(self) -> None:
        """Kill everything in it and remove what it wrote; safe to call again."""
        self._is_closed = True
        if self._box is not None:
            await self._box.close()

    async def __aenter__(self) -> Sandbox:
        return await self.start()

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    @property
    def box(self) -> contract.Box:
        """The provider's own object, whose methods are awaited. ``SandboxClosed`` unless it is open."""
        if self._box is None or self._is_closed:
            state = "closed" if self._is_closed else "not open yet"
            within = "use it within `with Sandbox(...) as box:`"
            remedy = within if self._is_closed else f"{within}, or call start() and, when you are done, close()"
            raise SandboxClosed(f"the sandbox is {state}", remedy=remedy)
        return self._box

    @property
    def id(self) -> str:
        """The box's id."""
        return self.box.id

    @property
    def provider(self) -> str:
        """Name of the provider, or what was asked for where it is not open yet."""
        wanted = self._wanted_provider
        return self._provider.name if self._provider else wanted if isinstance(wanted, str) else wanted.name

    @property
    def workdir(self) -> str:
        """Where commands run and relative paths start: the repository."""
        return self._prepared.workdir

    @property
    def base_commit(self) -> str:
        """What :meth:`diff` compares with; "HEAD" where there is no repository."""
        return self._prepared.base_commit

    async def status(self) -> BoxStatus:
        """running, paused, stopped or lost."""
        return "stopped" if self._is_closed or self._box is None else await self._box.status()

    # -- commands ---------------------------------------------------------------------------------------------------

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        stdin: bytes | str | None = None,
        timeout_s: float | None = None,
        output_bytes: int = contract.DEFAULT_OUTPUT_BYTES,
        merge_stderr: bool = False,
        on_output: OnOutput | None = None,
        output_file: str | None = None,
    ) -> ExecResult:
        """Run a shell line or an argument list; see :meth:`swe_sdk.sandbox.contract.Box.exec`.

        ``output_file``, a path in the sandbox, gets everything that the command prints, both streams in the order in
        which they came, once it has ended; the result keeps ``output_bytes`` of it as always.

        Raises ``SandboxClosed`` or ``SandboxLost`` where it could not be started at all, ``InputError`` for arguments
        that no command can have, and nothing for what the command does.
        """
        require(command=command, cwd=cwd, env=env, user=user, stdin=stdin, timeout_s=timeout_s)
        require(output_bytes=output_bytes, on_output=on_output, output_file=output_file)
        run = partial(
            self.box.exec,
            command,
            cwd=cwd,
            env=env,
            user=user,
            stdin=encoded(stdin) if isinstance(stdin, str) else stdin,
            timeout_s=timeout_s,
            output_bytes=output_bytes,
            merge_stderr=merge_stderr,
        )
        if output_file is None:
            return await run(on_output=on_output)
        with WholeOutput(on_output) as output:
            return await output.put(self.box, output_file, await run(on_output=output.take))

    async def processes(self) -> list[Process]:
        """What runs in it. ``CapabilityMissing`` where the provider cannot tell."""
        box = self.box
        if not isinstance(box, contract.SupportsProcesses):
            raise self._cannot("list processes")
        return await box.processes()

    async def pause(self) -> None:
        """Stop every process in it. ``CapabilityMissing`` where the provider cannot."""
        box = self.box
        if not isinstance(box, contract.SupportsPause):
            raise self._cannot("pause")
        await box.pause()

    async def resume(self) -> None:
        """Continue them. ``CapabilityMissing`` where the provider cannot."""
        box = self.box
        if not isinstance(box, contract.SupportsPause):
            raise self._cannot("resume")
        await box.resume()

    async def listen(self, port: int = 0) -> tuple[int, socket.socket]:
        """A TCP listener inside the box, served by this process; no network is needed.

        Returns its port and the socket, which the caller closes. ``CapabilityMissing`` where the provider cannot.
        """
        require(port=port)
        box = self.box
        if not isinstance(box, contract.SupportsListen):
            raise self._cannot("listen")
        return await box.listen(port)

    def _cannot(self, what: str) -> CapabilityMissing:
        return CapabilityMissing(f"boxes of the provider {self.provider!r} cannot {what}")

    # -- files ------------------------------------------------------------------------------------------------------

    async def read_bytes(self, path: str) -> bytes:
        """The content of a file; relative paths start at the repository. ``TransferFailed`` where there is none."""
        require(path=path)
        return await self.box.read(path)

    async def read_text(self, path: str, encoding: str = "utf-8") -> str:
        """The content of a file as text, undecodable bytes replaced. ``TransferFailed`` where there is none."""
        require(path=path, encoding=encoding)
        return (await self.box.read(path)).decode(encoding, "replace")

    async def write_bytes(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Create or replace a file, and the directories above it. ``TransferFailed`` where that cannot be."""
        require(path=path, data=data, mode=mode)
        await self.box.write(path, data, mode=mode)

    async def write_text(self, path: str, text: str, *, encoding: str = "utf-8", mode: int = 0o644) -> None:
        """Create or replace a file, and the directories above it. ``TransferFailed`` where that cannot be."""
        require(path=path, text=text, encoding=encoding, mode=mode)
        await self.box.write(path, encoded(text, encoding), mode=mode)

    async def upload(self, local: str | Path, remote: str) -> None:
        """Copy a file of any size in, with its permission bits. ``TransferFailed`` where that cannot be."""
        require(local=local, remote=remote)
        await self.box.upload(Path(local), remote)

    async def download(self, remote: str, local: str | Path) -> None:
        """Copy a file of any size out: it appears whole, or ``TransferFailed`` is raised."""
        require(remote=remote, local=local)
        await self.box.download(remote, Path(local))

    async def diff(self) -> Patch:
        """Everything that differs from the base commit, as a patch; see :func:`swe_sdk.sandbox.tree.take_patch`.

        Whatever was done to the repository's ``.git``: where it is needed, the base is brought over from a fresh box.
        Raises ``TransferFailed`` where there is no repository with a known base, or none can be taken any more.
        """
        if self.base_commit == HEAD:
            raise TransferFailed(
                f"there is no repository at {self.workdir} whose base commit is known",
                remedy="take it by a task, or by an environment whose workdir is a git repository",
            )
        box = self.box
        assert self._provider is not None, "there is a box, so there is who made it"
        return await take_patch_whatever(self._provider, self._prepared, box)

    # -- snapshots --------------------------------------------------------------------------------------------------

    async def snapshot(self) -> Snapshot:
        """Freeze what was written so far; the box goes on.

        Raises ``SnapshotBusy`` while processes live in it (pause it, or stop them), ``NoSpace`` on a full disk, and
        ``CapabilityMissing`` where the provider cannot freeze.
        """
        provider: object = self._provider
        if not isinstance(provider, contract.SupportsSnapshots):
            raise self._cannot("be frozen")
        snapshot = await provider.snapshot(self.box)
        await self._refresh_index()
        return snapshot

    async def fork(self) -> Sandbox:
        """A second sandbox that starts with everything this one has written. The caller closes it.

        Raises what :meth:`snapshot` and :meth:`start` do.
        """
        provider: object = self._provider
        snapshot = await self.snapshot()
        assert isinstance(provider, contract.SandboxProvider)
        assert isinstance(provider, contract.SupportsSnapshots)
        twin = type(self)(
            self._prepared,
            provider=provider,
            snapshot=snapshot,
            env=self._env,
            network=self._network,
            limits=self._limits,
        )
        try:
            return await twin.start()
        finally:
            with anyio.CancelScope(shield=True):
                await provider.delete_snapshot(snapshot.id)  # the twin itself keeps what it stands on

    def __repr__(self) -> str:
        if self._box is None or self._is_closed:
            return f"<Sandbox {'closed' if self._is_closed else 'not open'}>"
        return f"<Sandbox {one_line(self._box.id)} on {one_line(self.provider)}, {one_line(self.workdir)}>"
