"""What the server does, without a server: the same requests and answers in this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from anyio import to_thread

from swe_sdk.model.task import Task
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.server.models import VerifyRequest, VerifyResponse
from swe_sdk.server.orders import order_of_verify
from swe_sdk.server.settings import ServerSettings
from swe_sdk.server.tasks import Tasks
from swe_sdk.server.validation import validated
from swe_sdk.server.verdicts import verdict_of
from swe_sdk.server.verifier import Verifier


async def verify(
    request: VerifyRequest | Mapping[str, Any],
    *,
    tasks: Iterable[Task] = (),
    provider: SandboxProvider | str = "auto",
    **settings: Any,
) -> VerifyResponse:
    """Answer a request of NeMo Gym's verifiers as ``swe-sdk serve`` does: the request again, and the verdict.

    The task stands in ``responses_create_params.metadata``, or is the one of that ``instance_id`` among ``tasks``; the
    patch in ``response.metadata["model_patch"]``, or in the first fenced ``diff`` or ``patch`` block of a message.
    ``settings`` are those of :class:`~swe_sdk.server.settings.ServerSettings` that say how to grade: ``policy``,
    ``tests_timeout_s``, ``build_timeout_s``, ``retries``, ``control``. Never raises for what the patch does, nor for
    infrastructure: that is ``mask_sample``, with a reward of 0.0 that is no measurement.

    Raises ``InputError`` for a request that makes no sense.
    """
    told = ServerSettings.of(**{"local_sources": True, "metrics": False, "patience_s": 0.0, **settings})
    asked = request if isinstance(request, VerifyRequest) else validated(VerifyRequest, request)
    found = Tasks(TaskSet(tasks), local_sources=told.local_sources)
    order, patch_source, task_source = await to_thread.run_sync(order_of_verify, asked, found, told)
    graded = await Verifier(told, provider).grade(order)
    verdict = verdict_of(graded, patch_source=patch_source, task_source=task_source)
    return VerifyResponse.model_validate({**asked.model_dump(exclude_unset=True), **verdict.model_dump()})
