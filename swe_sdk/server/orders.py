"""From a request to what is to be evaluated."""

from __future__ import annotations

from typing import NamedTuple

from swe_sdk.errors import InputError
from swe_sdk.model.patch import Patch
from swe_sdk.server.models import Control, GradeRequest, PatchSource, TaskSource, VerifyRequest
from swe_sdk.server.patches import find_patch
from swe_sdk.server.settings import ServerSettings
from swe_sdk.server.tasks import Tasks
from swe_sdk.server.verifier import Order


class VerifyOrder(NamedTuple):
    """An order, and where its parts were found."""

    order: Order
    patch_source: PatchSource
    task_source: TaskSource


def order_of_verify(request: VerifyRequest, tasks: Tasks, settings: ServerSettings) -> VerifyOrder:
    """What a post to ``/verify`` asks for. Raises an ``InputError``."""
    task, task_source = tasks.of_verify(request)
    patch, patch_source = find_patch(request.response)
    asked = request.eval_timeout_s
    if asked is None:
        asked = _seconds((request.responses_create_params.metadata or {}).get("eval_timeout_s"))
    order = Order.of(task, patch, _tests_timeout_s(asked, settings), _control(request.control, settings))
    return VerifyOrder(order, patch_source, task_source)


def order_of_grade(request: GradeRequest, tasks: Tasks, settings: ServerSettings) -> Order:
    """What a post to ``/grade`` asks for. Raises an ``InputError``."""
    task = tasks.of_grade(request).task
    timeout_s = _tests_timeout_s(request.eval_timeout_s, settings)
    return Order.of(task, Patch.of(request.patch), timeout_s, _control(request.control, settings))


def _control(asked: Control | None, settings: ServerSettings) -> Control:
    return settings.control if asked is None else asked


def _seconds(value: object) -> float | None:
    """A number, or its text: values of metadata are texts for some."""
    if value is None:
        return None
    try:
        seconds = float(value) if isinstance(value, int | float | str) else 0.0
    except (ValueError, OverflowError):
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        problem = f"responses_create_params.metadata.eval_timeout_s is {value!r:.100}"
        raise InputError(problem, remedy="give a number of seconds above 0")
    return seconds


def _tests_timeout_s(asked: float | None, settings: ServerSettings) -> float:
    longest = settings.longest_tests_timeout_s
    if asked is not None and asked > longest:
        raise InputError(f"eval_timeout_s is {asked:g}", remedy=f"this server gives tests at most {longest:g} s")
    return settings.tests_timeout_s if asked is None else asked
