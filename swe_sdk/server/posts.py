"""The endpoints that take bodies: from a request to its answer."""

from __future__ import annotations

from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from swe_sdk.server.answering import Work, answered
from swe_sdk.server.bodies import parsed
from swe_sdk.server.models import GradeRequest, GradeResponse, SessionRequest, VerifyRequest
from swe_sdk.server.orders import VerifyOrder, order_of_grade, order_of_verify
from swe_sdk.server.service import Service
from swe_sdk.server.validation import validated
from swe_sdk.server.verdicts import verdict_of
from swe_sdk.server.verifier import Order


class Posts:
    """Each endpoint reads a body in a worker thread, and then answers what was read."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def verify(self, request: Request) -> Response:
        """Grade the patch in what a model said; the answer is the request and the verdict."""
        return await answered(self._service, request, lambda body: self.verification(parsed(body)))

    async def grade(self, request: Request) -> Response:
        """Grade the bytes of a patch; the answer holds an Outcome."""
        return await answered(self._service, request, lambda body: self._grading(parsed(body)))

    async def session(self, request: Request) -> Response:
        """Begin or end a session of NeMo Gym: there is nothing to keep, so its id is all of the answer."""
        return await answered(self._service, request, lambda body: session_echo(parsed(body)))

    def verification(self, echo: Any) -> Work:
        """The work that a body of :meth:`verify` asks for. Raises an ``InputError``."""
        asked = validated(VerifyRequest, echo)
        return partial(self._verify, echo, order_of_verify(asked, self._service.tasks, self._service.settings))

    async def _verify(self, echo: dict[str, Any], wanted: VerifyOrder) -> dict[str, Any]:
        graded = await self._service.verifier.grade(wanted.order)
        verdict = verdict_of(graded, patch_source=wanted.patch_source, task_source=wanted.task_source)
        return {**echo, **verdict.model_dump(mode="json")}

    def _grading(self, told: Any) -> Work:
        asked = validated(GradeRequest, told)
        return partial(self._grade, order_of_grade(asked, self._service.tasks, self._service.settings))

    async def _grade(self, order: Order) -> dict[str, Any]:
        outcome, control = await self._service.verifier.grade(order)
        return GradeResponse(outcome=outcome, control=control).model_dump(mode="json")


def session_echo(told: Any) -> Work:
    """The work that a session of which nothing is kept asks for."""
    asked = validated(SessionRequest, told)

    async def echo() -> dict[str, Any]:
        return asked.model_dump(mode="json", exclude_none=True, include={"resources_session_id"})

    return echo
