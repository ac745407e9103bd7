"""Environments that are built or fetched on each node before its jobs, instead of by the first who needs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from swe_sdk.executors.contract import Job, Pool
from swe_sdk.executors.grade_work import PREPARE, PrepareOrder
from swe_sdk.executors.provider_ref import ProviderRef
from swe_sdk.model.task import Task

_MADE_READY = 16
"""Environments at most: of more, no node needs all."""


async def make_ready(pool: Pool, provider: ProviderRef, tasks: Iterable[Task]) -> None:
    """Have the environments that several of these tasks share made ready on each node, the most wanted first.

    One that a single job needs is left to that job: only its own node needs it.
    """
    environments = [task.environment for task in tasks]
    by_text = {environment.model_dump_json(): environment for environment in environments}
    wanted = Counter(environment.model_dump_json() for environment in environments)
    shared = tuple(by_text[text] for text, count in wanted.most_common(_MADE_READY) if count > 1)
    if shared:
        order = PrepareOrder(provider=provider, environments=shared)
        job = Job(id="environments", work=PREPARE, input=order.model_dump(mode="json"))
        await pool.everywhere(job, later_too=True)
