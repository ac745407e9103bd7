"""The stand-in as a process of its own: ``python -m tests.sandbox.e2b.stub.server DIALECT MARK TEMPLATES HOME PORT``.

It listens on 127.0.0.1 at ``PORT``, or at one of the kernel's choice for 0, which it prints as its first line, for the
control plane and for the sandboxes alike, as AgentENV does; it ends, and leaves nothing, with its standard input. Where
it is killed instead, another one with the same ``HOME`` goes on with its sandboxes. ``TEMPLATES`` is JSON, images by
the names that clients use; ``HOME/requests`` gets each request to the control plane as a line of JSON.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import uvicorn
from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.sandbox.e2b.stub.containers import Containers
from tests.sandbox.e2b.stub.control import Control

_METHODS = ["GET", "POST", "DELETE", "PUT"]
_PASSED_ON = {"content-type", "transfer-encoding", "content-length"}
_GUEST_PORT = "49983"


class Stub:
    """One server."""

    def __init__(self, dialect: str, mark: str, templates: dict[str, str], home: Path) -> None:
        self.containers = Containers(mark, templates, home)
        self.control = Control(self.containers, dialect)
        self._log = home / "requests"
        self._guests: dict[str, httpx.AsyncClient] = {}

    def app(self) -> Starlette:
        """What answers."""
        guest = [Route(path, self.to_guest, methods=_METHODS) for path in ("/files", "/health", "/init")]
        services = [Route(f"/{s}/{{call}}", self.to_guest, methods=["POST"]) for s in _SERVICES]
        own = [Route("/stub/refuse", self.refuse, methods=["POST"]), Route("/stub/hang-up", self.hang_up)]
        return Starlette(routes=[*guest, *services, *own, Route("/{path:path}", self.to_control, methods=_METHODS)])

    async def to_control(self, request: Request) -> Response:
        """One request to the control plane."""
        text = await request.body()
        body = json.loads(text) if text else None
        path, headers = request.scope["raw_path"].decode(), dict(request.headers)
        with self._log.open("a") as log:
            key = {"key": headers["idempotency-key"]} if "idempotency-key" in headers else {}
            log.write(json.dumps({"request": f"{request.method} {path}", "body": body, **key}) + "\n")
        status, answer, extra = await to_thread.run_sync(
            self.control.answer, request.method, path, dict(request.query_params), body, headers
        )
        return Response(status_code=status, headers=extra) if answer is None else JSONResponse(answer, status, extra)

    async def refuse(self, request: Request) -> Response:
        """For tests: refuse the next request that begins so."""
        wanted = await request.json()
        self.control.refusals.append((wanted["request"], wanted["status"], wanted.get("after")))
        return Response(status_code=204)

    async def hang_up(self, request: Request) -> Response:
        """For tests: break all connections to guests, in the middle of whatever they say."""
        for client in self._guests.values():
            await client.aclose()
        self._guests.clear()
        return Response(status_code=204)

    async def to_guest(self, request: Request) -> Response:
        """Pass a request on to a sandbox, and its answer back, as it comes."""
        identity = request.headers.get("e2b-sandbox-id", "")
        await to_thread.run_sync(self.containers.expire)
        machine = self.containers.machines.get(identity)
        if machine is None or machine.state != "running" or request.headers.get("e2b-sandbox-port") != _GUEST_PORT:
            message = f"The sandbox {identity} was not found"
            return JSONResponse({"sandboxId": identity, "message": message, "code": 502}, 502)
        guest = self._guest(identity, machine.socket)
        passed = guest.build_request(
            request.method,
            f"http://guest{request.url.path}?{request.url.query}",
            headers=[(name, value) for name, value in request.headers.items() if name not in ("host", "connection")],
            content=request.stream() if request.method == "POST" else None,
        )
        try:
            answer = await guest.send(passed, stream=True)
        except httpx.HTTPError as error:
            is_dead = await to_thread.run_sync(self.containers.bury, machine)
            why = f"The sandbox {identity} was not found" if is_dead else f"port is not open: {error}"
            return JSONResponse({"sandboxId": identity, "message": why, "code": 502}, 502)
        headers = {name: value for name, value in answer.headers.items() if name in _PASSED_ON}
        return StreamingResponse(_body(answer), answer.status_code, headers)

    def _guest(self, identity: str, path: Path) -> httpx.AsyncClient:
        if identity not in self._guests:
            transport = httpx.AsyncHTTPTransport(verify=False, uds=str(path), limits=httpx.Limits(max_connections=None))
            self._guests[identity] = httpx.AsyncClient(transport=transport, timeout=None, trust_env=False)
        return self._guests[identity]


async def _body(answer: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for piece in answer.aiter_raw():
            yield piece
    finally:
        await answer.aclose()


_SERVICES = ("process.Process", "filesystem.Filesystem")


def main(dialect: str, mark: str, templates: str, home: str, port: str) -> None:
    """Serve until standard input ends."""
    stub = Stub(dialect, mark, json.loads(templates), Path(home))
    server = uvicorn.Server(uvicorn.Config(stub.app(), log_level="warning", lifespan="off", access_log=False))
    # told to be TCP, or asyncio does not set TCP_NODELAY, and each answer takes 40 ms
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(port)))
    print(listener.getsockname()[1], flush=True)

    def end_with_our_maker() -> None:
        sys.stdin.read()
        server.should_exit = server.force_exit = True

    threading.Thread(target=end_with_our_maker, daemon=True).start()
    try:
        server.run(sockets=[listener])
    finally:
        stub.containers.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
