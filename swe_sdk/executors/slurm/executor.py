"""The settings of jobs on Slurm."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anyio import to_thread
from pydantic import Field

from swe_sdk import paths
from swe_sdk.errors import PrerequisiteError
from swe_sdk.model.record import Record

if TYPE_CHECKING:
    from swe_sdk.executors.slurm.pool import SlurmPool


class SlurmExecutor(Record):
    """Jobs in arrays of Slurm jobs, through submitit. Needs ``pip install 'swe_sdk[slurm]'``.

    Each job of an array, a *shard*, runs many jobs of ours in one process. All talk through ``folder``, which every
    node must see by the same path. What a folder has a good result for is not run again: give the same folder to go on
    after a crash.
    """

    folder: Path | None = None
    """None = ``slurm`` in the directory of results (``paths.results_dir()``)."""
    shards: int = Field(default=8, ge=1)
    """At most so many Slurm jobs for what is submitted together."""
    slots: int | None = Field(default=None, ge=1)
    """Jobs at a time in a shard; None = one a processor that Slurm gives it, at most 8."""
    timeout_min: int = Field(default=24 * 60, ge=1)
    """For each shard. What is left of it then is done by its next start."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Further ones of submitit, such as ``slurm_partition``, ``cpus_per_task``, ``mem_gb``."""
    gather_s: float = Field(default=0.3, ge=0)
    """Jobs that are asked for within so many seconds of each other go into one array."""
    poll_s: float = Field(default=1.0, gt=0)
    """How often results are looked for."""
    drain_s: float = Field(default=120.0, gt=0)
    """How long cancelled jobs may take to close their sandboxes."""
    cluster: Literal["slurm", "local"] = "slurm"
    """``local`` = processes of this machine in the place of Slurm's, for tests."""

    @property
    def name(self) -> str:
        """``slurm``."""
        return "slurm"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SlurmPool]:
        """A pool. Raises ``PrerequisiteError`` where there is no submitit, or no Slurm."""
        folder = (self.folder or paths.results_dir() / "slurm").absolute()
        submitit = _imported()
        submitter = await to_thread.run_sync(self._submitter, submitit, folder)
        from swe_sdk.executors.slurm.pool import open_pool

        async with open_pool(self, folder, submitter) as pool:
            yield pool

    def _submitter(self, submitit: Any, folder: Path) -> Any:
        try:
            (folder / "shards").mkdir(parents=True, exist_ok=True)
            executor = submitit.AutoExecutor(folder=folder / "submitit", cluster=self.cluster)
            executor.update_parameters(name="swe_sdk", timeout_min=self.timeout_min, nodes=1, tasks_per_node=1)
            executor.update_parameters(**self.parameters)
        except (OSError, RuntimeError, ValueError, NameError) as error:
            raise PrerequisiteError(
                f"jobs cannot be given to Slurm: {error}",
                remedy="run this where sbatch and srun are, with a shared folder",
            ) from error
        return executor


def _imported() -> Any:
    try:
        import submitit
    except ImportError:
        raise PrerequisiteError("submitit is not installed", remedy="pip install 'swe_sdk[slurm]'") from None
    return submitit
