"""Environments: built once, forked for every box (being written: the signature is final)."""

from __future__ import annotations

from collections.abc import Callable

from swe_sdk.model.environment import Environment
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.prepared import PreparedEnvironment


async def prepare(
    provider: SandboxProvider, environment: Environment, *, on_progress: Callable[[str], None] | None = None
) -> PreparedEnvironment:
    """The environment, built if it is not there yet; one build at a time for each key, on this machine.

    ``on_progress`` is called with a word on each build step. Raises ``MissingTool``, ``CapabilityMissing``,
    ``BuildFailed`` or a ``SandboxError``.
    """
    raise NotImplementedError
