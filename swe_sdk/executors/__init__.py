"""Where jobs run: in this process, on the nodes of a Ray cluster, in an array of Slurm jobs.

An executor is settings; it needs neither Ray nor submitit until it is opened.
"""

from swe_sdk.executors.contract import Done, Executor, Job, JobResult, Pool
from swe_sdk.executors.local import LocalExecutor
from swe_sdk.executors.ray.executor import RayExecutor
from swe_sdk.executors.slurm.executor import SlurmExecutor

__all__ = ["Done", "Executor", "Job", "JobResult", "LocalExecutor", "Pool", "RayExecutor", "SlurmExecutor"]
