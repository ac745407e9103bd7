"""Carrying out one job: its work is found by name, bounded in time, and whatever it does becomes a result."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import Any

import anyio
from pydantic_core import from_json

from swe_sdk.errors import InputError, SweError
from swe_sdk.executors.contract import Done, Job, JobError, JobResult
from swe_sdk.executors.place import Place
from swe_sdk.grading.classify import classify, first_leaf

Work = Callable[[dict[str, Any], Place], Awaitable[Any]]
_TRACEBACK_CHARACTERS = 8000


@cache
def find_work(name: str) -> Work:
    """The function that ``package.module:function`` names. Raises ``InputError`` where it cannot be had here."""
    module, colon, function = name.partition(":")
    try:
        found = getattr(import_module(module), function) if colon else None
    except (ImportError, AttributeError) as error:
        raise InputError(f"no work {name!r} on this machine: {error}", remedy="install its package there") from error
    if not callable(found):
        raise InputError(f"{name!r} names no function", remedy='name it as "package.module:function"')
    work: Work = found
    return work


async def carry_out(job: Job, place: Place) -> JobResult:
    """What comes of a job here. Raises nothing but cancellation."""
    began = time.monotonic()
    try:
        with anyio.move_on_after(job.deadline_s) as deadline:
            output = await find_work(job.work)(job.input, place)
        if deadline.cancelled_caught:
            raise TimeoutError(f"the job was not over after {job.deadline_s:g} s")
        output, reusable = output if isinstance(output, Done) else (output, True)
        from_json(json.dumps(output))  # what cannot be read again would end the process that has to send it
    except Exception as error:  # noqa: BLE001  # the boundary: no job may stop the others
        return JobResult(
            id=job.id,
            state="failed",
            reusable=False,
            error=_described(error),
            node=place.node,
            seconds=time.monotonic() - began,
        )
    return JobResult(
        id=job.id,
        state="done",
        output=output,
        reusable=reusable,
        node=place.node,
        seconds=time.monotonic() - began,
    )


def _described(error: Exception) -> JobError:
    leaf = first_leaf(error)
    return JobError(
        type=type(leaf).__name__,
        message=_encodable(str(leaf)),
        kind=classify(leaf, "admission").kind,
        remedy=_encodable(leaf.remedy) if isinstance(leaf, SweError) else "",
        traceback=_encodable("".join(traceback.format_exception(error))[-_TRACEBACK_CHARACTERS:]),
    )


def _encodable(text: str) -> str:
    """An error may name a file, and that may be text which no encoding knows."""
    return text.encode("utf-8", "backslashreplace").decode()
