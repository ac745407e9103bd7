"""The blocking Sandbox."""

from __future__ import annotations

from collections.abc import Mapping

from swe_sdk import _aio_sandbox as aio
from swe_sdk._loop import BlockingMethod, blocking
from swe_sdk.model.environment import Environment
from swe_sdk.model.task import Task
from swe_sdk.sandbox import sandbox as plain
from swe_sdk.sandbox.contract import Box, Limits, Network, SandboxProvider, Snapshot
from swe_sdk.sandbox.environments import OnProgress
from swe_sdk.sandbox.prepared import PreparedEnvironment
from swe_sdk.shown import Shown


class Sandbox(Shown):
    """A box of a task's environment, open between ``with`` and its end (or ``start`` and ``close``).

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
        self._async: plain.Sandbox = aio.Sandbox(
            target,
            provider=provider,
            snapshot=snapshot,
            env=env,
            network=network,
            limits=limits,
            on_progress=on_progress,
        )

    exec = BlockingMethod(aio.Sandbox.exec)
    read_bytes = BlockingMethod(aio.Sandbox.read_bytes)
    read_text = BlockingMethod(aio.Sandbox.read_text)
    write_bytes = BlockingMethod(aio.Sandbox.write_bytes)
    write_text = BlockingMethod(aio.Sandbox.write_text)
    upload = BlockingMethod(aio.Sandbox.upload)
    download = BlockingMethod(aio.Sandbox.download)
    diff = BlockingMethod(aio.Sandbox.diff)
    snapshot = BlockingMethod(aio.Sandbox.snapshot)
    processes = BlockingMethod(aio.Sandbox.processes)
    pause = BlockingMethod(aio.Sandbox.pause)
    resume = BlockingMethod(aio.Sandbox.resume)
    listen = BlockingMethod(aio.Sandbox.listen)
    status = BlockingMethod(aio.Sandbox.status)
    close = BlockingMethod(aio.Sandbox.close)

    def start(self) -> Sandbox:
        """Build the environment if need be, and bring up the box, unless it is up already (a fork is).

        Raises ``SandboxClosed`` after ``close``; ``PrerequisiteError``, ``BuildFailed`` or a ``SandboxError`` where
        there can be no box.
        """
        blocking(self._async.start)()
        return self

    def fork(self) -> Sandbox:
        """A second sandbox that starts with everything this one has written. The caller closes it.

        Raises what :meth:`snapshot` and :meth:`start` do.
        """
        twin = Sandbox.__new__(Sandbox)
        twin._async = blocking(self._async.fork)()
        return twin

    def __enter__(self) -> Sandbox:
        return self.start()

    def __exit__(self, *_exception: object) -> None:
        self.close()

    @property
    def box(self) -> Box:
        """The provider's own object, whose methods are awaited. ``SandboxClosed`` unless it is open."""
        return self._async.box

    @property
    def id(self) -> str:
        """The box's id."""
        return self._async.id

    @property
    def provider(self) -> str:
        """Name of the provider, or what was asked for where it is not open yet."""
        return self._async.provider

    @property
    def workdir(self) -> str:
        """Where commands run and relative paths start: the repository."""
        return self._async.workdir

    @property
    def base_commit(self) -> str:
        """What :meth:`diff` compares with; "HEAD" where there is no repository."""
        return self._async.base_commit

    def __repr__(self) -> str:
        return repr(self._async)
