"""The workers of a pool: one for each node that Ray has, made anew where one dies on a node that lives."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import anyio
from anyio import to_thread

from swe_sdk.executors.contract import Job
from swe_sdk.executors.one_loop import CLOSED
from swe_sdk.executors.ray.executor import RayExecutor
from swe_sdk.executors.ray.slots import Slots
from swe_sdk.executors.ray.worker import RayWorker, WorkerLost, started_worker
from swe_sdk.model.record import Record

_LOOK_EVERY_S = 1.0
_START_CAP_S = 300.0
_PAUSE_S = 1.0
"""Before a worker is started again on a node where one has just died, for each that did."""
_log = logging.getLogger(__name__)


class RayNodeFacts(Record):
    """A node that lives, as Ray describes it."""

    node_id: str
    name: str
    slots: int


class Fleet:
    """Keeps ``slots`` up to date with the cluster, as long as :meth:`watch` runs."""

    def __init__(self, settings: RayExecutor, ray: Any) -> None:
        self.slots: Slots[RayWorker] = Slots()
        self._settings, self._ray = settings, ray
        self._workers: dict[str, RayWorker] = {}
        self._starting: set[str] = set()
        self._barren: Counter[str] = Counter()
        self._unfit: list[RayWorker] = []
        """Those whose nodes get no more jobs; what they still do, they may end."""
        self._first: list[Job] = []
        self._changed = anyio.Event()
        self._alone_since: float | None = None
        self._trouble = ""

    def worker_of(self, node: str) -> RayWorker | None:
        """The one of that name, as results give it."""
        return next((worker for worker in (*self._workers.values(), *self._unfit) if worker.info.node == node), None)

    async def watch(self) -> None:
        """Look after the cluster until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                self._changed = anyio.Event()
                nodes = await to_thread.run_sync(self._nodes)
                for node in nodes:
                    if node.node_id not in self._workers and node.node_id not in self._starting:
                        self._starting.add(node.node_id)
                        tasks.start_soon(self._start, node)
                self._forget_all_but({node.node_id for node in nodes})
                self._judge(nodes)
                with anyio.move_on_after(_LOOK_EVERY_S):
                    await self._changed.wait()

    async def everywhere(self, job: Job, *, later_too: bool) -> None:
        """On every worker that is there and, with ``later_too``, first on each that comes."""
        if later_too:
            self._first.append(job)
        async with anyio.create_task_group() as tasks:
            for worker in list(self._workers.values()):
                tasks.start_soon(self._do_on, worker, job)

    def lost(self, worker: RayWorker, why: str) -> None:
        """A worker is gone: its slots are, and where its node lives it gets another one. Again is no harm."""
        for node_id, each in list(self._workers.items()):
            if each is worker:
                _log.warning("the worker on %s is lost: %s", worker.info.node, why)
                self._barren[node_id] = 0 if worker.finished else self._barren[node_id] + 1
                self._drop(node_id)
                worker.kill()  # it may only have been out of reach; what it still does counts no more

    def can_spare(self, worker: RayWorker, why: str) -> bool:
        """Give its node no jobs any more, for what is wrong there; False where there is no other one."""
        node_id = next((node_id for node_id, each in self._workers.items() if each is worker), None)
        if node_id is None:
            return True
        if len(self._workers) + len(self._starting) < 2:
            return False
        _log.warning("%s gets no more jobs: %s", worker.info.node, why)
        self._trouble = f"; the last trouble was on {worker.info.node}: {why}"
        self._barren[node_id] = self._settings.restarts + 1
        self._drop(node_id)
        self._unfit.append(worker)
        return True

    async def stop(self) -> None:
        """Drain all workers and end their processes. Nobody waits for a slot any more."""
        self.slots.give_up(CLOSED)
        async with anyio.create_task_group() as tasks:
            for worker in (*self._workers.values(), *self._unfit):
                tasks.start_soon(worker.stop)
        self._workers.clear()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _nodes(self) -> list[RayNodeFacts]:
        found = []
        for node in self._ray.nodes():
            resources = node["Resources"]
            wanted = self._settings.resource or "CPU"
            if node["Alive"] and resources.get(wanted, 0) >= 1:
                slots = self._settings.slots or int(resources.get("CPU", 0)) or 1
                name = f"{node['NodeManagerHostname']}-{node['NodeID'][:12]}"
                found.append(RayNodeFacts(node_id=node["NodeID"], name=name, slots=slots))
        return [node for node in found if self._barren[node.node_id] <= self._settings.restarts]

    async def _start(self, node: RayNodeFacts) -> None:
        try:
            if self._barren[node.node_id]:
                await anyio.sleep(_PAUSE_S * self._barren[node.node_id])
            with anyio.fail_after(_START_CAP_S):
                worker = await started_worker(self._settings, self._ray, node.node_id, node.name, node.slots)
            self._workers[node.node_id] = worker
            for job in list(self._first):
                await self._do_on(worker, job)
            if self._workers.get(node.node_id) is worker:
                self.slots.add(worker, node.slots)
        except (WorkerLost, TimeoutError) as error:
            why = str(error) or f"it was not ready within {_START_CAP_S:g} s"
            self._barren[node.node_id] += 1
            self._trouble = f"; the last trouble was on {node.name}: {why}"
            _log.warning("no worker could be started on %s: %s", node.name, why)
        finally:
            self._starting.discard(node.node_id)
            self._changed.set()

    async def _do_on(self, worker: RayWorker, job: Job) -> None:
        try:
            await worker.everywhere(job)
        except WorkerLost as error:
            self.lost(worker, str(error))

    def _forget_all_but(self, alive: set[str]) -> None:
        for node_id in set(self._workers) - alive:
            _log.warning("the node of the worker on %s is gone", self._workers[node_id].info.node)
            self._drop(node_id)

    def _drop(self, node_id: str) -> None:
        worker = self._workers.pop(node_id, None)
        if worker is not None:
            self.slots.remove(worker)
        self._changed.set()

    def _judge(self, nodes: list[RayNodeFacts]) -> None:
        """Where there has been no worker for long, and none is on its way, nobody should wait any longer."""
        if self._workers or self._starting:
            self._alone_since = None
            return
        now = anyio.current_time()
        self._alone_since = now if self._alone_since is None else self._alone_since
        if now - self._alone_since >= self._settings.patience_s:
            self.slots.give_up(f"the cluster has had no worker for {self._settings.patience_s:g} s{self._trouble}")
