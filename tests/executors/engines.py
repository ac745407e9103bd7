"""The engines that tests run on, and how their workers and nodes are killed."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from anyio import to_thread

from swe_sdk.executors.contract import NodeInfo
from swe_sdk.executors.local import LocalExecutor
from swe_sdk.executors.ray.executor import RayExecutor
from swe_sdk.executors.slurm.executor import SlurmExecutor
from swe_sdk.testing import ExecutorCase
from tests.leaks import memory_folder
from tests.shared import lacking

OBJECT_STORE_BYTES = 80 << 20


def need_package(name: str) -> None:
    """Skip the test where a package is not installed. On CI it fails."""
    if find_spec(name) is None:
        lacking(f"{name} is not installed")


class LocalCase(ExecutorCase):
    drivers_share = False

    def make(self) -> LocalExecutor:
        return LocalExecutor(slots=2)


class RayCluster:
    """A head that works on nothing, and two nodes of one processor, each with a state directory of its own."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self.folder = Path(tempfile.mkdtemp(prefix="swe_sdk-ray-", dir=memory_folder()))
        head = {"num_cpus": 0, "object_store_memory": OBJECT_STORE_BYTES, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.states = [self.folder / "node-1", self.folder / "node-2"]
        self.nodes: dict[Path, Any] = {}
        self.mend()

    def mend(self) -> None:
        """Bring back nodes that were killed."""
        for state in self.states:
            if state not in self.nodes:
                self.nodes[state] = self.cluster.add_node(
                    num_cpus=1, object_store_memory=OBJECT_STORE_BYTES, env_vars={"SWE_SDK_STATE": str(state)}
                )
        self.cluster.wait_for_nodes()

    def kill(self, state: Path) -> None:
        """A node and all that Ray runs there."""
        self.cluster.remove_node(self.nodes.pop(state), allow_graceful=False)

    def close(self) -> None:
        self.cluster.shutdown()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def joined_cluster() -> Iterator[RayCluster]:
    """A cluster that this process has joined."""
    import ray

    cluster = RayCluster()
    try:
        ray.init(address=cluster.cluster.address, log_to_driver=False, logging_level="ERROR", namespace="swe_sdk")
        yield cluster
    finally:
        ray.shutdown()
        cluster.close()


class RayCase(ExecutorCase):
    workers = 2

    def __init__(self, cluster: RayCluster, **settings: Any) -> None:
        self.cluster, self.settings = cluster, settings

    def make(self) -> RayExecutor:
        return RayExecutor(**self.settings)

    async def kill_node(self, node: NodeInfo) -> None:
        await to_thread.run_sync(self.cluster.kill, Path(node.state))

    async def mend(self) -> None:
        self.cluster.mend()  # not in a thread: Ray sets signal handlers for a node


class SlurmCase(ExecutorCase):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self) -> SlurmExecutor:
        return SlurmExecutor(folder=self.folder, cluster="local", shards=2, slots=2, poll_s=0.3)

    async def kill_node(self, node: NodeInfo) -> None:
        """The shard, and what stands for Slurm's own daemon there."""
        for pid in (parent_of(node.pid), node.pid):
            os.kill(pid, signal.SIGKILL)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
