"""How much disk the environments of tasks take."""

from __future__ import annotations

from collections.abc import Iterable

import anyio

from swe_sdk.errors import SweError
from swe_sdk.grading.job import TEARDOWN_CAP_S
from swe_sdk.model.environment import Environment
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.environments import prepare
from swe_sdk.sandbox.registry import get_provider

_LOOK_S = 120.0
_ADD_UP = "du -skx / 2>/dev/null | cut -f1"
"""Of its own file system alone: neither what is mounted from this machine nor /proc."""


async def footprints(
    environments: Iterable[Environment], provider: SandboxProvider | str, limiter: anyio.CapacityLimiter
) -> dict[str, float]:
    """MiB of all files in a fresh box of each environment, by :func:`named`; equal ones are looked at once.

    Left out are those that cannot be had any more, and those whose boxes have no ``du``.
    """
    sizes: dict[str, float] = {}

    async def look(environment: Environment, engine: SandboxProvider) -> None:
        async with limiter:
            size = await _size_of(engine, environment)
        if size is not None:
            sizes[named(environment)] = size

    different = {named(environment): environment for environment in environments}
    async with anyio.create_task_group() as group:
        for environment in different.values():
            group.start_soon(look, environment, await get_provider(provider))
    return sizes


def named(environment: Environment) -> str:
    """The same text for equal environments."""
    return environment.model_dump_json()


async def _size_of(provider: SandboxProvider, environment: Environment) -> float | None:
    try:
        box = await provider.create((await prepare(provider, environment)).spec())
    except SweError:
        return None  # a figure for the report, and no reason to lose the report
    try:
        added = await box.exec(["sh", "-c", _ADD_UP], cwd="/", timeout_s=_LOOK_S)
    finally:
        with anyio.move_on_after(TEARDOWN_CAP_S, shield=True):
            await box.close()
    text = added.stdout.strip()
    return round(int(text) / 1024, 1) if added.ok and text.isdigit() else None
