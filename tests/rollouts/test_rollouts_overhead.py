"""What the engine itself costs: ten thousand rollouts whose boxes, agent and verifier cost next to nothing."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path

import anyio

from swe_sdk.agents.noop import NoopAgent
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import Task
from swe_sdk.rollouts.many import plan, run_many
from swe_sdk.rollouts.settings import RunLimits
from swe_sdk.sandbox.contract import Box, ProviderHealth, SandboxSpec
from swe_sdk.store.writer import RunWriter
from swe_sdk.testing.memory import MemoryBox, succeed
from tests.rollouts.world import QUICK, make_task, play, verified

ROLLOUTS = 10_000
MOST_MS = 2.0
MOST_GROWTH_MIB = 100
CALM = QUICK.model_copy(update=dict.fromkeys(("seed_timeout_s", "agent_timeout_s", "verify_timeout_s"), 60.0))


class FreeProvider:
    """Boxes in memory that nobody remembers."""

    name = "free"
    capabilities = frozenset[str]()

    def __init__(self) -> None:
        self.made = self.open = 0

    async def probe(self) -> ProviderHealth:
        return ProviderHealth(provider=self.name, works=True)

    async def create(self, spec: SandboxSpec) -> Box:
        self.made, self.open = self.made + 1, self.open + 1
        return FreeBox(self, spec)

    async def aclose(self) -> None:
        """Nothing is left."""


class FreeBox(MemoryBox):
    def __init__(self, provider: FreeProvider, spec: SandboxSpec) -> None:
        super().__init__(spec, play if spec.labels == {} else succeed, {})
        self._provider = provider
        self.result: bytes = b""

    async def exec(self, command: object, **options: object) -> ExecResult:
        return ExecResult(status="exited", exit_code=0, stdout_bytes=b"b" * 40 if "rev-parse" in command else b"")  # type: ignore[operator]

    async def read(self, path: str) -> bytes:
        return b""

    async def close(self) -> None:
        if not self._closed:
            self._provider.open -= 1
        await super().close()


class FreeVerifier:
    async def verify(self, task: Task, patch: Patch, *, deadline_s: float) -> Outcome:
        return verified(task, patch)


def rss_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def test_ten_thousand_rollouts_cost_little(tmp_path: Path) -> None:
    provider, task = FreeProvider(), make_task()

    async def go(count: int, journal: RunWriter) -> int:
        results = await run_many(
            plan([task], count),
            NoopAgent(),
            provider=provider,
            settings=CALM,
            verifier=FreeVerifier(),
            journal=journal,
            limits=RunLimits(episodes=64),
        )
        return sum(result.outcome.status == "unresolved" for result in results)

    with RunWriter(tmp_path / "warm", sync=False) as journal:
        assert anyio.run(go, 200, journal) == 200
    gc.collect()
    before_mib, begin = rss_mib(), time.process_time()
    with RunWriter(tmp_path / "run", sync=False) as journal:
        assert anyio.run(go, ROLLOUTS, journal) == ROLLOUTS
    each_ms, growth_mib = (time.process_time() - begin) / ROLLOUTS * 1000, rss_mib() - before_mib
    print(f"{each_ms:.2f} ms of processor time a rollout, {growth_mib:.0f} MiB more")
    assert provider.open == 0
    assert growth_mib <= MOST_GROWTH_MIB
    assert each_ms <= MOST_MS
