"""Environments: built once, frozen, forked for every box.

A build is a program for a sandbox, the same on every provider that can freeze one. Two layers: the virtual environment
with its pins, shared by all environments that name the same; on top of it the sources, installed and committed.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio import to_thread

from swe_sdk.errors import CapabilityMissing
from swe_sdk.files import write_atomic
from swe_sdk.model.environment import Environment, ImageEnvironment, SourceEnvironment
from swe_sdk.model.ids import content_key
from swe_sdk.sandbox import build, sources
from swe_sdk.sandbox.contract import (
    Box,
    SandboxProvider,
    SandboxSpec,
    SupportsBuild,
    SupportsImages,
    SupportsSnapshots,
    Toolchain,
)
from swe_sdk.sandbox.index_settings import index_settings
from swe_sdk.sandbox.locks import file_lock
from swe_sdk.sandbox.prepared import PreparedEnvironment

OnProgress = Callable[[str], None]


async def prepare(
    provider: SandboxProvider, environment: Environment, *, on_progress: OnProgress | None = None
) -> PreparedEnvironment:
    """The environment, built if it is not there yet; one build at a time for each key, on this machine.

    ``on_progress`` is called with a word on each build step. Raises ``MissingTool``, ``CapabilityMissing``,
    ``BuildFailed`` or a ``SandboxError``.
    """
    if isinstance(environment, ImageEnvironment):
        found = None
        if isinstance(provider, SupportsImages):
            found = await provider.ensure_image(environment.image, on_progress=on_progress)
        key = content_key([environment.model_dump(mode="json"), found])
        return PreparedEnvironment(
            key=key,
            image=environment.image,
            workdir=environment.workdir,
            env=environment.env,
            reset_to=environment.base,
        )
    if "build" not in provider.capabilities or not isinstance(provider, SupportsBuild):
        raise CapabilityMissing(f"the provider {provider.name!r} cannot build sources", remedy="use provider 'local'")
    return await _Builder(provider, environment, on_progress or (lambda _text: None)).prepare()


class _Builder:
    """One build of one environment."""

    def __init__(self, provider: SandboxProvider, environment: SourceEnvironment, on_progress: OnProgress) -> None:
        assert isinstance(provider, SupportsBuild)
        assert isinstance(provider, SupportsSnapshots)
        self._provider = provider
        self._snapshots: SupportsSnapshots = provider
        self._find_toolchain = provider.toolchain
        self._records = provider.state / "environments"
        self._environment = environment
        self._say = on_progress
        self._of_machine = True

    async def prepare(self) -> PreparedEnvironment:
        toolchain = await self._find_toolchain(self._environment.python, self._environment.tools)
        self._of_machine = toolchain.of_machine
        content = await to_thread.run_sync(sources.fingerprint, self._environment.source)
        base_key = content_key(["venv", build.VERSION, self._environment.pip, toolchain.fingerprint])
        steps = self._environment.model_dump(mode="json", exclude={"source", "python", "pip", "tools"})
        key = content_key(["sources", build.VERSION, base_key, content, steps])

        async def build_all() -> PreparedEnvironment:
            below = await self._virtual_environment(base_key, toolchain)
            return await self._sources(key, below, toolchain)

        return await self._once(key, build_all)

    async def _once(self, key: str, make: Callable[[], Awaitable[PreparedEnvironment]]) -> PreparedEnvironment:
        """The recorded result of ``make`` under ``key``, made under a lock if there is none."""
        found = await self._load(key)
        if found is not None:
            return found
        async with file_lock(self._records / f"{key}.lock"):
            found = await self._load(key)
            if found is not None:
                return found
            started = time.monotonic()
            prepared = (await make()).model_copy(update={"build_s": time.monotonic() - started})
            write_atomic(self._records / f"{key}.json", prepared.model_dump_json().encode())
            return prepared

    async def _load(self, key: str) -> PreparedEnvironment | None:
        """A finished build, if its snapshot is still there. A record of another version of ours is none."""
        try:
            record = PreparedEnvironment.model_validate_json((self._records / f"{key}.json").read_bytes())
        except (OSError, ValueError):
            return None
        prepared = record.model_copy(update={"build_s": 0.0})
        known = {snapshot.id for snapshot in await self._snapshots.snapshots()}
        return prepared if prepared.snapshot in known else None

    async def _virtual_environment(self, key: str, toolchain: Toolchain) -> PreparedEnvironment:
        """The lower layer: Python and its pins; nothing at all where no Python is wanted."""
        if toolchain.python is None:
            env = {"PATH": build.search_path(toolchain, venv=False)}
            return PreparedEnvironment(key=key, env=env, mounts=toolchain.mounts)
        python = toolchain.python

        async def make() -> PreparedEnvironment:
            env = {"PATH": build.search_path(toolchain, venv=True), "VIRTUAL_ENV": build.VENV}
            below = PreparedEnvironment(key=key, env=env, mounts=toolchain.mounts)
            async with self._build_box(below) as (box, settings):
                await build.virtual_environment(box, python, self._environment.pip, settings, self._say)
                return await self._freeze(box, below)

        return await self._once(key, make)

    async def _sources(self, key: str, below: PreparedEnvironment, toolchain: Toolchain) -> PreparedEnvironment:
        """The upper layer: the sources, installed and committed."""
        environment = self._environment
        env = {**below.env, **environment.env}
        prepared = below.model_copy(update={"key": key, "env": env, "workdir": environment.workdir})
        async with self._build_box(prepared) as (box, settings):
            commit = await build.sources(box, environment, settings, self._say)
            return await self._freeze(box, prepared.model_copy(update={"base_commit": commit}))

    @asynccontextmanager
    async def _build_box(self, below: PreparedEnvironment) -> AsyncIterator[tuple[Box, dict[str, str]]]:
        """A box with the host's network on top of ``below``, and the variables with which it reaches its index."""
        settings, mounts = index_settings(of_machine=self._of_machine)
        spec = SandboxSpec(
            snapshot=below.snapshot,
            workdir="/",
            env=below.env,
            network="host",
            mounts=(*below.mounts, *mounts),
            labels={"purpose": "build"},
        )
        box = await self._provider.create(spec)
        try:
            yield box, settings
        finally:
            with anyio.CancelScope(shield=True):
                await box.close()

    async def _freeze(self, box: Box, prepared: PreparedEnvironment) -> PreparedEnvironment:
        self._say("freezing")
        await build.stop_everything(box)
        snapshot = await self._snapshots.snapshot(box)
        return prepared.model_copy(update={"snapshot": snapshot.id})
