"""Requests of a session reach the worker that has it: whole, once, and with its answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import anyio
import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from swe_sdk.agents.gateway.serving import HttpService, listen_on
from swe_sdk.server.control.workers.to_owner import ToOwner


class Fleet:
    """Workers that echo what they get, by name; ``aliases`` as a coordinator would have told them."""

    def __init__(self) -> None:
        self.addresses: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        self.seen: list[str] = []
        self.targets: list[tuple[str, bytes]] = []
        self.bodies: list[bytes] = []
        self.left = defaultdict[str, anyio.Event](anyio.Event)

    def owner_of(self, name: str) -> str | None:
        now = self.aliases.get(name, name)
        return now if now in self.addresses else None

    def app(self, name: str) -> Starlette:
        async def echo(request: Request) -> Response:
            self.seen.append(name)
            self.targets.append((request.scope["path"], request.scope["query_string"]))
            self.bodies.append(body := await request.body())
            told = {"x-worker": name, "x-query": request.url.query, "x-length": str(len(body))}
            return Response(body, 201, told, media_type="application/octet-stream")

        async def hang(request: Request) -> Response:
            path = request.path_params["path"]
            if path == "begun":
                return StreamingResponse(self._endless(path))
            await request.body()
            while not await request.is_disconnected():
                await anyio.sleep(0.01)
            self.left[path].set()
            return Response()

        hanging = Route("/hang/{path}", hang, methods=["POST"])
        return Starlette(routes=[hanging, Route("/{path:path}", echo, methods=["GET", "POST"])])

    async def _endless(self, path: str) -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"more"
                await anyio.sleep(0.01)
        finally:
            self.left[path].set()


@asynccontextmanager
async def fleet(*names: str) -> AsyncIterator[Fleet]:
    found = Fleet()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(httpx.AsyncClient(verify=False))
        for name in names:
            listener = listen_on()
            found.addresses[name] = f"http://127.0.0.1:{listener.getsockname()[1]}"
            member: Any = SimpleNamespace(name=name, addresses=found.addresses, owner_of=found.owner_of)
            app: Any = ToOwner(found.app(name), member, client, server="agent")
            await stack.enter_async_context(HttpService(app).serve(listener))
        yield found


async def ask(url: str, cookies: Any = None, **request: Any) -> httpx.Response:
    async with httpx.AsyncClient(base_url=url, cookies=cookies, verify=False) as client:
        return await client.request(request.pop("method", "POST"), "/some%2Fpath?a=1&b=%20", **request)


def test_a_session_stays_with_its_worker() -> None:
    async def main() -> None:
        async with fleet("a", "b") as workers:
            first = await ask(workers.addresses["a"], content=b"x")
            cookies = dict(first.cookies)
            assert list(cookies.values()) == ["a"]
            big = bytes(range(256)) * 8192
            there = await ask(workers.addresses["b"], cookies, content=big)
            assert (there.status_code, there.headers["x-worker"], there.content) == (201, "a", big)
            assert there.headers["x-query"] == "a=1&b=%20"
            assert not there.cookies, "it knows already"
            read = await ask(workers.addresses["b"], cookies, method="GET")
            assert (read.headers["x-worker"], read.content) == ("a", b"")
            assert workers.seen == ["a"] * 3

    anyio.run(main)


def test_a_former_owner_is_known_by_its_name_and_one_that_is_gone_is_said_to_be() -> None:
    async def main() -> None:
        async with fleet("a", "b") as workers:
            (name,) = (await ask(workers.addresses["a"])).cookies
            workers.aliases["old"] = "b"
            for url in workers.addresses.values():
                answer = await ask(url, {name: "old"})
                assert answer.headers["x-worker"] == "b"
                assert dict(answer.cookies) == {name: "b"}
                gone = await ask(url, {name: "gone"})
                assert (gone.status_code, gone.json()["error"]["code"]) == (410, "session_lost")
            assert (await ask(url, {"another-cookie": "gone"})).status_code == 201
            workers.addresses["c"] = "http://127.0.0.1:1"
            lost = await ask(url, {name: "c"})
            assert (lost.status_code, lost.json()["error"]["code"]) == (502, "worker_lost")

    anyio.run(main)


def test_a_client_that_leaves_ends_its_request_at_the_owner() -> None:
    """Whether it is still waiting for an answer, or for the rest of one."""

    async def main() -> None:
        async with fleet("a", "b") as workers:
            (name,) = (await ask(workers.addresses["a"])).cookies
            for path in ("silent", "begun"):
                async with httpx.AsyncClient(base_url=workers.addresses["b"], verify=False) as client:
                    with anyio.move_on_after(0.3):
                        await client.post(f"/hang/{path}", content=b"x" * 100_000, headers={"cookie": f"{name}=a"})
                with anyio.fail_after(5):
                    await workers.left[path].wait()

    anyio.run(main)


def test_a_request_is_sent_on_to_a_worker_and_to_nobody_else() -> None:
    """The target of a request is a client's to write: what stands in it is a path, whatever it looks like."""

    async def main() -> None:
        async with fleet("a", "b") as workers, await anyio.create_tcp_listener(local_host="127.0.0.1") as elsewhere:
            (name,) = (await ask(workers.addresses["a"])).cookies
            port = elsewhere.extra(anyio.abc.SocketAttribute.local_port)
            met: list[str] = []

            async def meet(stream: anyio.abc.SocketStream) -> None:
                met.append("somebody else")
                await stream.aclose()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(elsewhere.serve, meet)
                for target in (f"%2f@127.0.0.1:{port}/x", f"@127.0.0.1:{port}/x", f"%2F%2F127.0.0.1:{port}/x"):
                    status = await _raw(workers.addresses["b"], f"GET {target} HTTP/1.1", f"Cookie: {name}=a")
                    assert status == await _raw(workers.addresses["a"], f"GET {target} HTTP/1.1"), target
                tasks.cancel_scope.cancel()
            assert met == []

    anyio.run(main)


def test_a_request_is_the_same_to_its_owner_as_to_who_carries_it() -> None:
    """Else one would decide on another attempt's request than the other answers."""

    async def main() -> None:
        async with fleet("a", "b") as workers:
            (name,) = (await ask(workers.addresses["a"])).cookies
            for target in ("/a%2fb?c", "/x/../y", "//x/y", "/x/./y%2e%2e/z", "/x#y?z", '/x"|y?a=\'b"', "/x?"):
                assert await _raw(workers.addresses["b"], f"GET {target} HTTP/1.1", f"Cookie: {name}=a") == b"201"
                assert await _raw(workers.addresses["a"], f"GET {target} HTTP/1.1") == b"201"
                assert workers.targets[-2:] == [workers.targets[-1]] * 2, target
            chunked = ("Transfer-Encoding: chunked", "Content-Length: 3", "", "5", "whole", "0")
            for cookie in ("", f"Cookie: {name}=a"):
                assert await _raw(workers.addresses["b"], "POST /x HTTP/1.1", cookie or "X: y", *chunked) == b"201"
            assert workers.bodies[-2:] == [b"whole"] * 2

    anyio.run(main)


async def _raw(url: str, first: str, *lines: str) -> bytes:
    """The status that a request gets which no client of HTTP would make."""
    async with await anyio.connect_tcp("127.0.0.1", int(url.rpartition(":")[2])) as stream:
        await stream.send("\r\n".join([first, "Host: x", *lines, "", ""]).encode())
        return (await stream.receive()).split()[1]


def test_of_a_body_that_is_cut_off_nothing_passes_for_all_of_it() -> None:
    async def main() -> None:
        async with fleet("a", "b") as workers:
            (name,) = (await ask(workers.addresses["a"])).cookies
            for _ in range(5):
                async with await anyio.connect_tcp("127.0.0.1", int(workers.addresses["b"].rpartition(":")[2])) as one:
                    head = ("POST /x HTTP/1.1", "Host: x", f"Cookie: {name}=a", "Transfer-Encoding: chunked")
                    await one.send("\r\n".join([*head, "", "4", "half", ""]).encode())
                    await anyio.sleep(0.05)
            await anyio.sleep(0.2)
            assert workers.bodies == [b""], "of the request that asked for its cookie"

    anyio.run(main)


def test_a_cookie_is_found_among_those_of_others() -> None:
    """Cookies of a host go to all of its ports, and some servers set odd ones."""

    async def main() -> None:
        async with fleet("a", "b") as workers:
            (name,) = (await ask(workers.addresses["a"])).cookies
            async with httpx.AsyncClient(base_url=workers.addresses["b"], verify=False) as client:
                odd = f'theirs={{"a": [1]}}; =; odd"; {name}=a'
                answer = await client.get("/x", headers={"cookie": odd})
            assert (answer.headers["x-worker"], workers.seen[-1]) == ("a", "a")

    anyio.run(main)
