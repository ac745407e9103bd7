"""The tools of sessions over MCP, as a streamable HTTP endpoint that keeps no state of its own.

Which session a call is for, its token says. Any server that has the secret can check it; one that does not have the
session passes the call on to the one that has. Whoever has no valid token is told so by the tool, in words that reach
the model, and not by the transport, which harnesses take for an outage.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpx
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import swe_sdk
from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.errors import SweError
from swe_sdk.model.record import Record
from swe_sdk.server.answering import CLIENT_GONE, Desk, json_response
from swe_sdk.server.bodies import ClientGone, Inbox, parsed
from swe_sdk.server.gym.http import open_client
from swe_sdk.server.gym.rpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RpcCall,
    RpcError,
    error_of,
    initialized,
    read_call,
    result_of,
)
from swe_sdk.server.gym.sessions import TOKEN_HEADER, Sessions
from swe_sdk.server.gym.tokens import Grant
from swe_sdk.server.gym.tools import TOOLS, Tool, ToolText, run_tool, tool_threads
from swe_sdk.server.problems import Problem

PATH = "/mcp"
_PASSED_ON = "x-swe-sdk-passed-on"
"""Set on a call that another server has passed on, or another worker of the same one, and which of both it was: to such
a one it is not passed on again."""
_WORKER, _SERVER = "worker", "server"


Elsewhere = Callable[[EpisodeId], Awaitable[str | None]]
"""Gives the address of the worker of this server that has an attempt, where that is not this one."""


class McpEndpoint:
    """``POST /mcp`` of one resources server."""

    def __init__(
        self, sessions: Sessions, desk: Desk, tools: Sequence[Tool] = TOOLS, *, elsewhere: Elsewhere | None = None
    ) -> None:
        self._sessions = sessions
        self._desk = desk
        self._elsewhere = elsewhere
        self._tools: Mapping[str, Tool] = {tool.name: tool for tool in tools}
        self._threads = tool_threads()

    def route(self) -> Route:
        """Its route."""
        return Route(PATH, self.post, methods=["POST"])

    async def post(self, request: Request) -> Response:
        """One message, one answer."""
        inbox = Inbox(request)
        try:
            _require_own_origin(request, self._sessions.url)
            with self._desk.admission.post() as slot:
                body = await inbox.body(slot, self._desk.settings)
                return await self._answered(request, inbox, body)
        except ClientGone:
            return Response(status_code=CLIENT_GONE)
        except Problem as problem:
            return problem.response()
        except SweError as error:
            return Problem("too_busy", error.message).response()

    async def _answered(self, request: Request, inbox: Inbox, body: bytearray) -> Response:
        try:
            call = read_call(parsed(body))
        except Problem as problem:
            return _failed(None, RpcError(PARSE_ERROR, str(problem)), 400)
        except RpcError as error:
            return _failed(None, error, 400)
        if call == "response" or call.id is None:
            return Response(status_code=202)
        try:
            result = await inbox.while_connected(lambda: self._result(call, request, bytes(body)))
        except RpcError as error:
            return _failed(call.id, error)
        return json_response(result_of(call, result))

    async def _result(self, call: RpcCall, request: Request, body: bytes) -> dict[str, Any]:
        if call.method == "initialize":
            return initialized(call.params, "swe_sdk", swe_sdk.__version__)
        if call.method == "ping":
            return {}
        if call.method == "tools/list":
            return {"tools": [_described(tool) for tool in self._tools.values()]}
        if call.method == "tools/call":
            return await self._called(call, request, body)
        raise RpcError(METHOD_NOT_FOUND, f"there is no method {call.method!r:.100}")

    async def _called(self, call: RpcCall, request: Request, body: bytes) -> dict[str, Any]:
        tool = self._tools.get(str(call.params.get("name")))
        if tool is None:
            raise RpcError(INVALID_PARAMS, f"there is no tool {call.params.get('name')!r:.100}")
        try:
            grant = self._sessions.signer.check(_token(request), "tools")
            passed = request.headers.get(_PASSED_ON)
            if grant.owner != self._sessions.url and passed is None:
                return await _passed_on(grant.owner, _token(request), body, _SERVER)
            worker = None if passed == _WORKER or self._elsewhere is None else await self._elsewhere(grant.episode_id)
            if worker is not None:
                return await _passed_on(worker, _token(request), body, _WORKER)
            return _told(await self._run(tool, grant, call.params.get("arguments") or {}))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            return _told(ToolText(f"{place}: {first['msg']}", True))
        except SweError as error:
            return _told(ToolText(str(error), True))

    async def _run(self, tool: Tool, grant: Grant, told: Any) -> ToolText:
        session = self._sessions.granted(grant)
        arguments: Record = tool.arguments.model_validate(told)
        async with self._sessions.at_work(session, grant.episode_id) as box:
            return await run_tool(tool, box, arguments, self._threads)


def _token(request: Request) -> str:
    shown = request.headers.get(TOKEN_HEADER)
    return shown if shown is not None else request.headers.get("authorization", "").partition(" ")[2].strip()


def _require_own_origin(request: Request, url: str) -> None:
    """A page in somebody's browser must not reach a server of his machine, be it by a name that it has bound to it:
    what such a request has as its host says nothing."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != urlsplit(url).netloc:
        raise Problem("unauthorized", f"the origin {origin!r:.100} is not this server's own")


async def _passed_on(owner: str, token: str, body: bytes, as_one: str) -> dict[str, Any]:
    """The answer of the server that has the session. Its address is out of a token that we, or one of ours, signed, or
    of our coordinator."""
    headers = {TOKEN_HEADER: token, _PASSED_ON: as_one, "content-type": "application/json"}
    try:
        async with open_client(owner) as client:
            answer = await client.post(PATH, content=body, headers=headers)
        result: dict[str, Any] = answer.json()["result"]
        return result
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return _told(ToolText(f"the server that has the session cannot be reached: {owner}", True))


def _told(said: ToolText) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said.text}], "isError": said.is_error}


@cache
def _described(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "inputSchema": tool.arguments.model_json_schema()}


def _failed(name: str | int | None, error: RpcError, status: int = 200) -> Response:
    response = json_response(error_of(name, error))
    response.status_code = status
    return response
