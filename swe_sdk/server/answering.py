"""From a request with a body to its answer: admitted, read, validated, worked on while its client is there."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol

import anyio
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response

from swe_sdk.errors import CheckpointError, InputError, SweError
from swe_sdk.grading.classify import classify
from swe_sdk.server.admission import TooBusy
from swe_sdk.server.bodies import BodyLimits, ClientGone, Counts, Inbox
from swe_sdk.server.problems import Problem, problem_of
from swe_sdk.server.wire import ErrorAnswer, error_response, refusal

Work = Callable[[], Awaitable[dict[str, Any]]]
"""What answers a request whose body was understood."""
Read = Callable[[bytearray], Work]
"""Understands a body, in a worker thread."""
FAILED_STATUS = 503
CLIENT_GONE = 499
"""The status, never sent, of what nobody waited for."""


class Admits(Protocol):
    """Counts posts that are being answered."""

    def post(self) -> AbstractContextManager[Counts]:
        """Around answering one; ``TooBusy`` where there are too many."""


class Desk(Protocol):
    """What a server decides on before it reads a body, and how it reads it."""

    @property
    def settings(self) -> BodyLimits:
        """How large and how slow a body may be."""

    @property
    def admission(self) -> Admits:
        """How many posts at once."""

    @property
    def readers(self) -> anyio.CapacityLimiter:
        """How many bodies are understood at once, in threads."""

    def require_token(self, authorization: str | None) -> None:
        """``Problem`` unless the header shows the server's token."""

    def require_open(self) -> None:
        """``Problem`` where the server was told to stop."""


async def answered(desk: Desk, request: Request, read: Read) -> Response:
    """The JSON that comes of the work which ``read`` made of the body; or a typed error.

    The work is cancelled where the client leaves: the response, which nobody gets, has status 499 then.
    """
    inbox = Inbox(request)
    try:
        return await _admitted(desk, request, inbox, read)
    except ClientGone:
        return Response(status_code=CLIENT_GONE)
    except Exception as error:  # noqa: BLE001  what is none of ours is raised again
        response = error_answer(error)
    await take_the_rest(inbox, response)
    return response


async def take_the_rest(inbox: Inbox, response: Response) -> None:
    """A client that is refused before its body was read gets to read the answer, and is cut off then."""
    if not inbox.is_complete:
        response.headers["Connection"] = "close"
        with suppress(ClientGone):
            await inbox.linger()


def error_answer(error: Exception) -> Response:
    """What a client is told of an error; raises it again where it is a defect.

    A refusal by its own code. Infrastructure that failed has status 503, since it may be tried again, and its kind in
    the policy table as code.
    """
    if isinstance(error, CheckpointError):
        return refusal(error)
    if isinstance(error, Problem):
        return error.response()
    if isinstance(error, InputError | TooBusy):
        return problem_of(error).response()
    if isinstance(error, SweError | TimeoutError):
        failure = classify(error, "seed")
        return error_response(ErrorAnswer(FAILED_STATUS, failure.kind, failure.reason))
    raise error


async def _admitted(desk: Desk, request: Request, inbox: Inbox, read: Read) -> Response:
    _require_no_page(request)
    desk.require_token(request.headers.get("authorization"))
    desk.require_open()
    with desk.admission.post() as slot:
        body = await inbox.body(slot, desk.settings)
        work = await to_thread.run_sync(read, body, limiter=desk.readers)
        del body  # what was read of it is in memory now, and that is enough
        return json_response(await inbox.while_connected(work))


def _require_no_page(request: Request) -> None:
    """``Problem`` for a page in a browser: any that is looked at on the server's machine may post to it, unseen."""
    if "origin" in request.headers:
        raise Problem("unauthorized", "pages of browsers may not post", remedy="post from a program")


def json_response(value: Any) -> Response:
    """ASCII, so that text which came out of a sandbox cannot stop it."""
    return Response(json.dumps(value), media_type="application/json")
