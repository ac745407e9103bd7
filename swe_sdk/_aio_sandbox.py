"""The awaitable Sandbox as users have it: the stop button reaches its calls, and builds show their steps."""

from __future__ import annotations

from swe_sdk._wakeful import wakeful
from swe_sdk.model.environment import Environment
from swe_sdk.model.task import Task
from swe_sdk.progress import shown_steps
from swe_sdk.sandbox import sandbox as plain
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.environments import OnProgress
from swe_sdk.sandbox.prepared import PreparedEnvironment


@wakeful
async def prepare(
    target: Task | Environment, *, provider: SandboxProvider | str = "auto", on_progress: OnProgress | None = None
) -> PreparedEnvironment:
    """Build the environment of a task, if it is not there yet, so that its sandboxes start at once.

    ``on_progress`` is called with a word on each build step; without it, steps are shown where somebody looks. Raises
    ``ProviderUnavailable``, ``MissingTool``, ``CapabilityMissing``, ``BuildFailed`` or a ``SandboxError``.
    """
    with shown_steps(on_progress) as say:
        return await plain.prepare(target, provider=provider, on_progress=say)


class Sandbox(plain.Sandbox):
    """A box of a task's environment, open between ``async with`` and its end (or ``start`` and ``close``).

    ``target`` is a task, an environment (built on first use), a prepared environment, or None for the provider's bare
    base system. ``snapshot`` is what an earlier ``snapshot()`` of the same target returned.
    """

    @wakeful
    async def start(self) -> Sandbox:
        """Build the environment if need be, and bring up the box, unless it is up already (a fork is).

        Raises ``SandboxClosed`` after ``close``; ``PrerequisiteError``, ``BuildFailed`` or a ``SandboxError`` where
        there can be no box.
        """
        with shown_steps(self._on_progress) as say:
            self._on_progress = say
            await super().start()
        return self

    exec = wakeful(plain.Sandbox.exec)
    read_bytes = wakeful(plain.Sandbox.read_bytes)
    read_text = wakeful(plain.Sandbox.read_text)
    write_bytes = wakeful(plain.Sandbox.write_bytes)
    write_text = wakeful(plain.Sandbox.write_text)
    upload = wakeful(plain.Sandbox.upload)
    download = wakeful(plain.Sandbox.download)
    diff = wakeful(plain.Sandbox.diff)
    snapshot = wakeful(plain.Sandbox.snapshot)
    fork = wakeful(plain.Sandbox.fork)
    processes = wakeful(plain.Sandbox.processes)
    pause = wakeful(plain.Sandbox.pause)
    resume = wakeful(plain.Sandbox.resume)
    listen = wakeful(plain.Sandbox.listen)
    status = wakeful(plain.Sandbox.status)
    close = wakeful(plain.Sandbox.close)
