"""The endpoints that take bodies: from a request to its answer."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response

from swe_sdk.errors import SweError
from swe_sdk.server.bodies import ClientGone, Inbox, parsed
from swe_sdk.server.models import GradeRequest, GradeResponse, SessionRequest, VerifyRequest
from swe_sdk.server.orders import VerifyOrder, order_of_grade, order_of_verify
from swe_sdk.server.problems import Problem, problem_of
from swe_sdk.server.service import Service
from swe_sdk.server.validation import validated
from swe_sdk.server.verdicts import verdict_of
from swe_sdk.server.verifier import Order

T = TypeVar("T")
CLIENT_GONE = 499
"""The status, never sent, of what nobody waited for."""


class _Verify(NamedTuple):
    echo: dict[str, Any]
    wanted: VerifyOrder


class Posts:
    """Each endpoint reads a body in a worker thread, and then answers what was read."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def verify(self, request: Request) -> Response:
        """Grade the patch in what a model said; the answer is the request and the verdict."""
        return await self._answered(request, self._read_verify, self._verify)

    async def grade(self, request: Request) -> Response:
        """Grade the bytes of a patch; the answer holds an Outcome."""
        return await self._answered(request, self._read_grade, self._grade)

    async def session(self, request: Request) -> Response:
        """Begin or end a session of NeMo Gym: there is nothing to keep, so its id is all of the answer."""
        return await self._answered(request, _read_session, _session)

    def _read_verify(self, body: bytearray) -> _Verify:
        echo = parsed(body)
        request = validated(VerifyRequest, echo)
        return _Verify(echo, order_of_verify(request, self._service.tasks, self._service.settings))

    async def _verify(self, read: _Verify) -> dict[str, Any]:
        graded = await self._service.verifier.grade(read.wanted.order)
        _order, patch_source, task_source = read.wanted
        verdict = verdict_of(graded, patch_source=patch_source, task_source=task_source)
        return {**read.echo, **verdict.model_dump(mode="json")}

    def _read_grade(self, body: bytearray) -> Order:
        request = validated(GradeRequest, parsed(body))
        return order_of_grade(request, self._service.tasks, self._service.settings)

    async def _grade(self, order: Order) -> dict[str, Any]:
        outcome, control = await self._service.verifier.grade(order)
        return GradeResponse(outcome=outcome, control=control).model_dump(mode="json")

    async def _answered(
        self, request: Request, read: Callable[[bytearray], T], answer: Callable[[T], Awaitable[dict[str, Any]]]
    ) -> Response:
        inbox = Inbox(request)
        try:
            return await self._admitted(request, inbox, read, answer)
        except ClientGone:
            return Response(status_code=CLIENT_GONE)
        except (Problem, SweError) as error:
            problem = error if isinstance(error, Problem) else problem_of(error)
        if not inbox.is_complete:
            problem.headers["Connection"] = "close"
            with suppress(ClientGone):
                await inbox.linger()
        return problem.response()

    async def _admitted(
        self,
        request: Request,
        inbox: Inbox,
        read: Callable[[bytearray], T],
        answer: Callable[[T], Awaitable[dict[str, Any]]],
    ) -> Response:
        service = self._service
        service.require_token(request.headers.get("authorization"))
        service.require_open()
        with service.admission.post() as slot:
            body = await inbox.body(slot, service.settings)
            order = await to_thread.run_sync(read, body, limiter=service.readers)
            del body  # what was read of it is in memory now, and that is enough
            return _json(await inbox.while_connected(partial(answer, order)))


def _read_session(body: bytearray) -> SessionRequest:
    return validated(SessionRequest, parsed(body))


async def _session(request: SessionRequest) -> dict[str, Any]:
    return request.model_dump(mode="json", exclude_none=True, include={"resources_session_id"})


def _json(value: Any) -> Response:
    """ASCII, so that text which came out of a sandbox cannot stop it."""
    return Response(json.dumps(value), media_type="application/json")
