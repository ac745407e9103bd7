"""The environments of a run: each is prepared once, whoever asks, and what cannot be built is not tried again."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from swe_sdk.errors import BuildFailed, PrerequisiteError
from swe_sdk.model.environment import Environment
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.environments import prepare
from swe_sdk.sandbox.lent_environment import LentEnvironment, LentEnvironments
from swe_sdk.sandbox.outage import outlast_outage

_KEPT = 1024


class RunEnvironments:
    """Lent environments by what they are made from. For one provider and one event loop."""

    def __init__(
        self,
        provider: SandboxProvider,
        *,
        build_timeout_s: float,
        scrub: bool,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        self.lending = LentEnvironments(scrub=scrub)
        self._provider = provider
        self._build_timeout_s = build_timeout_s
        self._on_progress = on_progress
        self._ready: dict[str, LentEnvironment] = {}
        self._broken: dict[str, BuildFailed | PrerequisiteError] = {}
        self._locks: dict[str, anyio.Lock] = {}

    async def get(self, environment: Environment) -> LentEnvironment:
        """The environment, built if need be, as soon as the provider answers: what uses it begins now.

        Raises what :func:`swe_sdk.sandbox.environments.prepare` and
        :meth:`swe_sdk.sandbox.lent_environment.LentEnvironments.get` raise, and ``TimeoutError``.
        """
        key = environment.model_dump_json()
        await outlast_outage(self._provider, on_progress=self._on_progress)
        if key in self._ready:
            return self._ready[key]
        with anyio.fail_after(self._build_timeout_s):
            async with self._locks.setdefault(key, anyio.Lock()):
                if key in self._broken:
                    raise self._broken[key]
                if key not in self._ready:
                    self._keep(key, await self._make(key, environment))
        return self._ready[key]

    def forget(self, environment: Environment) -> None:
        """Boxes cannot be made from it any more: prepare it anew for the next who asks."""
        lent = self._ready.pop(environment.model_dump_json(), None)
        if lent is not None:
            self.lending.forget(lent)

    async def _make(self, key: str, environment: Environment) -> LentEnvironment:
        try:
            prepared = await prepare(self._provider, environment, on_progress=self._on_progress)
            return await self.lending.get(self._provider, environment, prepared)
        except (BuildFailed, PrerequisiteError) as error:
            self._broken[key] = error
            raise

    def _keep(self, key: str, lent: LentEnvironment) -> None:
        self._ready[key] = lent
        while len(self._ready) > _KEPT:
            del self._ready[next(iter(self._ready))]
