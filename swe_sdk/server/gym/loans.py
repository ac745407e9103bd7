"""The endpoints of lent sandboxes: for who shows the token of the session, while that is of the same attempt."""

from __future__ import annotations

import posixpath
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from swe_sdk.errors import CapabilityMissing, SweError
from swe_sdk.model.record import Record
from swe_sdk.sandbox.contract import Box, SupportsListen
from swe_sdk.server.admission import MIB
from swe_sdk.server.answering import CLIENT_GONE, Desk, error_answer
from swe_sdk.server.bodies import ClientGone, Inbox, parsed
from swe_sdk.server.gym.boxes import Session
from swe_sdk.server.gym.loan_messages import LOANS, ExecOrder, ListenOrder, ListenReply, LoanError, line_of
from swe_sdk.server.gym.relay import relayed
from swe_sdk.server.gym.sessions import Sessions
from swe_sdk.server.gym.streams import ExecStream, FileStream, HeldOpen
from swe_sdk.server.problems import Problem
from swe_sdk.server.validation import validated
from swe_sdk.server.wire import bearer_token, error_response

R = TypeVar("R", bound=Record)
Call = Callable[[Request, Box], Awaitable[Response]]


class _Held(Response):
    """An answer during which the sandbox counts as used."""

    def __init__(self, sessions: Sessions, session: Session, answer: Response) -> None:
        super().__init__()
        self._sessions, self._session, self._answer = sessions, session, answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with ExitStack() as stack:
            try:
                stack.enter_context(self._sessions.using(self._session))
            except SweError as error:  # it was closed meanwhile, or has too many calls
                await error_answer(error)(scope, receive, send)
                return
            await self._answer(scope, receive, send)


class Loans:
    """Of one resources server."""

    def __init__(self, sessions: Sessions, desk: Desk, *, transfer_mib: float) -> None:
        self._sessions = sessions
        self._desk = desk
        self._transfer_bytes = int(transfer_mib * MIB)

    def routes(self) -> list[Route]:
        """Below :data:`~.loan_messages.LOANS`."""
        below = f"{LOANS}/{{session_id}}"
        return [
            Route(f"{below}/exec", self._endpoint(self._exec), methods=["POST"]),
            Route(f"{below}/files", self._endpoint(self._file), methods=["GET", "PUT"]),
            Route(f"{below}/status", self._endpoint(self._status), methods=["GET"]),
            Route(f"{below}/listen", self._endpoint(self._listen), methods=["POST"]),
        ]

    def _endpoint(self, call: Call) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                session = self._session(request)
                with self._sessions.using(session) as box:
                    answer = await call(request, box)
                return _Held(self._sessions, session, answer)
            except ClientGone:
                return Response(status_code=CLIENT_GONE)
            except Exception as error:  # noqa: BLE001  what is none of ours is raised again
                return error_answer(error)

        return endpoint

    def _session(self, request: Request) -> Session:
        token = bearer_token(request.headers.get("authorization"))
        session = self._sessions.granted(self._sessions.signer.check(token, "sandbox"))
        if session.id != request.path_params["session_id"]:
            raise Problem("unauthorized", "the token is of another session")
        return session

    # -- calls ------------------------------------------------------------------------------------------------------

    async def _exec(self, request: Request, box: Box) -> Response:
        return ExecStream(box, await self._read(request, ExecOrder))

    async def _file(self, request: Request, box: Box) -> Response:
        path, mode = _path(request), _mode(request)
        if request.method != "PUT":
            return FileStream(box, path, self._transfer_bytes)
        async with self._received(request) as local:
            local.chmod(mode)
            try:
                await box.upload(local, path)
            except SweError as error:
                return _loan_error(error)
        return Response(status_code=204)

    async def _status(self, request: Request, box: Box) -> Response:
        return JSONResponse({"status": await box.status()})

    async def _listen(self, request: Request, box: Box) -> Response:
        order, client = await self._read(request, ListenOrder), request.client
        if not isinstance(box, SupportsListen) or client is None:
            return _loan_error(CapabilityMissing("sandboxes of this server cannot listen"))
        listening, host = box, client.host

        async def work(say: Callable[[bytes], Awaitable[None]]) -> None:
            port, listener = await listening.listen(order.port)
            async with relayed(listener, host, order.to_port):
                await say(line_of(ListenReply(port=port)))
                await anyio.sleep_forever()

        return HeldOpen(work)

    # -- bodies -----------------------------------------------------------------------------------------------------

    async def _read(self, request: Request, model: type[R]) -> R:
        body = await Inbox(request).body(_Uncounted(), self._desk.settings)
        return validated(model, parsed(body))

    @asynccontextmanager
    async def _received(self, request: Request) -> AsyncIterator[Path]:
        """The body as a file of this machine; ``Problem`` where it is too large."""
        with tempfile.TemporaryDirectory(prefix="swe_sdk-loan-") as folder:
            local, size = Path(folder) / "file", 0
            async with await anyio.open_file(local, "wb") as file:
                with _client_gone():
                    async for chunk in request.stream():
                        size += len(chunk)
                        if size > self._transfer_bytes:
                            raise Problem("body_too_large", f"the file is larger than {self._transfer_bytes} bytes")
                        await file.write(chunk)
            yield local


class _Uncounted:
    """Who has a token of a session may send as many bodies at once as the session may have calls."""

    def add(self, count: int) -> None:
        """See :class:`..bodies.Counts`."""


@contextmanager
def _client_gone() -> Iterator[None]:
    try:
        yield
    except ClientDisconnect:
        raise ClientGone from None


def _path(request: Request) -> str:
    path = request.query_params.get("path", "")
    if not path or "\0" in path or posixpath.normpath(path) in ("/", "."):
        raise Problem("invalid_request", "path: name a file", remedy="as ?path=...")
    return path


def _mode(request: Request) -> int:
    told = request.query_params.get("mode", "644")
    try:
        mode = int(told, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o777:
        raise Problem("invalid_request", f"mode: {told!r:.20} is none", remedy="give octal digits, such as 644")
    return mode


def _loan_error(error: SweError) -> Response:
    return error_response(LoanError.of(error).answer())
