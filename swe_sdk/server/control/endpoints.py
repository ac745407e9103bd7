"""The endpoints: from a request to a call of the participant, and from what comes of it to an answer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from pydantic import SecretStr
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from swe_sdk.checkpoint.messages import CommitRequest, Operation, Request, RestoreRequest
from swe_sdk.checkpoint.participant import REQUESTS, Participant
from swe_sdk.errors import InputError, SweError
from swe_sdk.model.record import Record
from swe_sdk.server.bodies import ClientGone, Inbox, parsed
from swe_sdk.server.control.settings import ControlLimits
from swe_sdk.server.control.tracing import incoming
from swe_sdk.server.problems import Problem, problem_of
from swe_sdk.server.validation import validated
from swe_sdk.server.wire import ErrorAnswer, as_refusal, error_response, refusal, require_token

CLIENT_GONE = 499
"""The status, never sent, of what nobody waited for."""
_log = logging.getLogger("swe_sdk.checkpoint")


class _Uncounted:
    """Those who have the token may send as many bodies at once as they like."""

    def add(self, count: int) -> None:
        """See :class:`..bodies.Counts`."""


class Endpoints:
    """The token is looked at first, then the body is read, then the participant is asked."""

    def __init__(self, participant: Participant, token: SecretStr, limits: ControlLimits) -> None:
        self._participant = participant
        self._token = token
        self._limits = limits

    async def status(self, request: HttpRequest) -> Response:
        """Where the participant stands."""
        return await self._answered(Inbox(request), request, self._participant.status)

    def of(self, operation: Operation) -> Callable[[HttpRequest], Awaitable[Response]]:
        """The endpoint of an operation."""
        method = getattr(self._participant, operation)

        async def endpoint(request: HttpRequest) -> Response:
            inbox = Inbox(request)

            async def called() -> Record:
                told = await self._read(inbox, operation)
                reply: Record = await inbox.while_connected(lambda: method(told))
                return reply

            return await self._answered(inbox, request, called)

        return endpoint

    async def _read(self, inbox: Inbox, operation: Operation) -> Request:
        body = await inbox.body(_Uncounted(), self._limits)
        told = validated(REQUESTS[operation], parsed(body))
        if isinstance(told, CommitRequest | RestoreRequest):
            self._limits.require_place(told.checkpoint_dir)
        return told

    async def _answered(self, inbox: Inbox, request: HttpRequest, called: Callable[[], Awaitable[Record]]) -> Response:
        try:
            require_token(request.headers.get("authorization"), self._token)
            with incoming(request.headers):
                reply = await called()
        except ClientGone:
            return Response(status_code=CLIENT_GONE)
        except (Problem, InputError) as error:
            response = _problem(error)
        except Exception as error:  # noqa: BLE001  hooks are foreign code: that they failed is this call's answer
            if not isinstance(error, SweError):
                _log.error("a participant failed with what is no error of its own", exc_info=error)
            response = refusal(as_refusal(error))
        else:
            return Response(reply.model_dump_json(ensure_ascii=True), media_type="application/json")
        await _take_the_rest(inbox, request, response)
        return response


async def _take_the_rest(inbox: Inbox, request: HttpRequest, response: Response) -> None:
    """A client that is refused before its body was read gets to read the answer, and is cut off then."""
    if request.method == "POST" and not inbox.is_complete:
        response.headers["Connection"] = "close"
        with suppress(ClientGone):
            await inbox.linger()


def _problem(error: Problem | InputError) -> Response:
    problem = error if isinstance(error, Problem) else problem_of(error)
    told = problem.body.error
    detail = f"{told.detail} ({told.remedy})" if told.remedy else told.detail
    return error_response(ErrorAnswer(problem.status, told.code, detail), problem.headers)
