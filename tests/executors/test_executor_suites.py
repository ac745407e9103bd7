"""The public suite, on each executor."""

from __future__ import annotations

import pytest

from swe_sdk.testing import ExecutorSuite
from tests.executors.engines import LocalCase, RayCase, RayCluster, SlurmCase, need_package


class TestLocal(ExecutorSuite):
    def make_case(self) -> LocalCase:
        return LocalCase()


class TestRay(ExecutorSuite):
    @pytest.fixture(autouse=True)
    def _cluster(self, ray_cluster: RayCluster) -> None:
        self.cluster = ray_cluster

    def make_case(self) -> RayCase:
        return RayCase(self.cluster)


class TestSlurm(ExecutorSuite):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        need_package("submitit")
        self.folder = tmp_path_factory.mktemp("slurm")

    def make_case(self) -> SlurmCase:
        return SlurmCase(self.folder)
