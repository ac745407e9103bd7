"""Requests of an attempt reach the worker that has it, whichever worker of a server they come to.

Whose a request is, its path says, or the token of a loan, or its body; an activation that names its session alone is
sent to whoever has that. Calls to tools are passed on by their own endpoint (:mod:`.mcp`), in words for the model.
"""

from __future__ import annotations

import ipaddress
import re
from contextlib import suppress

from anyio import to_thread
from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.errors import CheckpointError
from swe_sdk.server.answering import Desk, error_answer, take_the_rest
from swe_sdk.server.bodies import ClientGone, Inbox, parsed
from swe_sdk.server.control.workers.carrying import Carrier, is_forwarded
from swe_sdk.server.gym.loan_messages import LOANS
from swe_sdk.server.gym.tokens import Signer
from swe_sdk.server.problems import Problem
from swe_sdk.server.wire import ROLLOUTS, ErrorAnswer, bearer_token, episode_of, error_response

_OF_AN_ATTEMPT = re.compile(rf"{ROLLOUTS}/([^/]+)/")
_OF_A_LOAN = re.compile(rf"{LOANS}/[^/]+/(\w+)")
_EPISODE = TypeAdapter(EpisodeId)


class ToAttempt:
    """Wraps the application of a worker.

    ``bodies``: paths whose bodies name their attempt; ``session_cookie``: the cookie by which activations name their
    session; ``signer``: of the tokens of loans. Where what a request counts on was lost with its worker, the answer is
    410 (``session_lost``); where its worker goes away while it is asked, 502 (``worker_lost``).
    """

    def __init__(
        self,
        app: ASGIApp,
        carrier: Carrier,
        desk: Desk,
        *,
        bodies: frozenset[str],
        session_cookie: tuple[str, str] | None = None,
        signer: Signer | None = None,
    ) -> None:
        self._app = app
        self._carrier = carrier
        self._member = carrier.member
        self._desk = desk
        self._bodies = bodies
        self._session_cookie = session_cookie
        self._signer = signer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http" or is_forwarded(scope) or not self._may_ask(Request(scope)):
            await self._app(scope, receive, send)
        elif scope["method"] == "POST" and scope["path"] in self._bodies:
            await self._with_body(None, None, scope, receive, send)
        else:
            named = self._named(Request(scope))
            try:
                owner = await self._owner(named)
            except CheckpointError as error:
                await error_answer(error)(scope, receive, send)
                return
            if owner in (None, self._member.name) or _OF_A_LOAN.match(scope["path"]):
                await self._at(owner, named, scope, receive, send)
            else:
                await self._with_body(owner, named, scope, receive, send)

    async def _owner(self, named: EpisodeId | str | None) -> str | None:
        if named is None:
            return self._member.name
        if isinstance(named, EpisodeId):
            return await self._member.place_of(named)
        return await self._member.holder_of(named) or self._member.name  # which says that there is none

    async def _at(
        self, owner: str | None, named: EpisodeId | str | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if owner == self._member.name:
            await self._app(scope, receive, send)
        elif owner is None:
            await _lost(named)(scope, receive, send)
        elif (loan := _OF_A_LOAN.match(scope["path"])) and loan[1] == "listen" and not _is_near(Request(scope)):
            # connections are passed on to whoever asks, which its owner would take for this machine
            detail = "sandboxes of a server with several workers listen for borrowers on its own machine alone"
            await error_response(ErrorAnswer(409, "capability_missing", detail))(scope, receive, send)
        else:
            await self._carrier.carry(owner, scope, receive, send)

    # -- who is meant -----------------------------------------------------------------------------------------------

    def _named(self, request: Request) -> EpisodeId | str | None:
        path = request.scope["path"]
        if request.method == "POST" and (found := _OF_AN_ATTEMPT.match(path)) is not None:
            with suppress(CheckpointError, ValidationError):  # the application says what is wrong with it
                return episode_of(found[1])
        if self._signer is not None and _OF_A_LOAN.match(path):
            with suppress(CheckpointError):
                token = bearer_token(request.headers.get("authorization"))
                return self._signer.check(token, "sandbox").episode_id
        if self._session_cookie is not None and path == self._session_cookie[0]:
            return request.cookies.get(self._session_cookie[1])
        return None

    def _may_ask(self, request: Request) -> bool:
        """Whoever may not is refused by the application, before anything is read or remembered of it."""
        if _OF_A_LOAN.match(request.scope["path"]):
            return True  # by its own token
        try:
            self._desk.require_token(request.headers.get("authorization"))
        except Problem:
            return False
        return "origin" not in request.headers

    async def _with_body(
        self, owner: str | None, named: EpisodeId | str | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Its body first, which says whose it is where nothing else does. All but those of loans are read before they
        are carried: who is still sending would not hear the owner say that a body is too large, or too slow."""
        inbox = Inbox(Request(scope, receive))
        try:
            with self._desk.admission.post() as slot:  # its owner counts it from then on
                body = await inbox.body(slot, self._desk.settings)
                if named is None:
                    named = await to_thread.run_sync(_episode_in, body, limiter=self._desk.readers)
                    owner = await self._owner(named)
            receive = _again(body, receive)
            del body  # it goes when it is read, and the answer may take hours
        except ClientGone:
            return
        except Exception as error:  # noqa: BLE001  what is none of ours is raised again
            response = error_answer(error)
            await take_the_rest(inbox, response)
            await response(scope, receive, send)
            return
        await self._at(owner, named, scope, receive, send)


def _episode_in(body: bytearray) -> EpisodeId | None:
    """The attempt that a body names; what is wrong with it, the application says."""
    try:
        told = parsed(body)
        return _EPISODE.validate_python(told["episode_id"]) if isinstance(told, dict) else None
    except (Problem, KeyError, ValidationError):
        return None


def _again(body: bytearray, receive: Receive) -> Receive:
    """What a client sends, once more."""
    unread = [bytes(body)]

    async def receive_again() -> Message:
        return {"type": "http.request", "body": unread.pop(), "more_body": False} if unread else await receive()

    return receive_again


def _is_near(request: Request) -> bool:
    try:
        return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False


def _lost(named: EpisodeId | str | None) -> Response:
    detail = f"the worker that had what {named} counts on is gone (begin another attempt)"
    return error_response(ErrorAnswer(410, "session_lost", detail))
