"""Frames, requests and messages between a worker and its coordinator, whatever the other side does."""

from __future__ import annotations

import asyncio
import resource
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.checkpoint.codes import refuse
from swe_sdk.errors import SandboxError
from swe_sdk.server.control.workers.link import MAX_FRAME_BYTES, Link, framed, frames
from swe_sdk.server.control.workers.unix import UnixStream, connected, listening, serve
from tests.checkpoint.house import refused

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


class Pieces(anyio.abc.ByteReceiveStream):
    """Bytes that come in pieces of any size."""

    def __init__(self, data: bytes, size: int) -> None:
        self.data, self.size = data, size

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if not self.data:
            raise anyio.EndOfStream
        piece, self.data = self.data[: self.size], self.data[self.size :]
        return piece

    async def aclose(self) -> None:
        """Nothing is open."""


async def _all(data: bytes, size: int) -> list[Any]:
    return [frame async for frame in frames(Pieces(data, size))]


@given(st.lists(json_values, max_size=5), st.integers(1, 50), st.integers(0, 5))
def test_frames_come_out_as_they_went_in_and_half_a_frame_is_none(values: list[Any], size: int, cut: int) -> None:
    data = b"".join(map(framed, values))
    assert anyio.run(_all, data, size) == values
    if cut and values:
        assert anyio.run(_all, data[:-cut], size) == values[:-1] or cut > len(framed(values[-1]))


@given(st.binary(max_size=40))
def test_garbage_ends_the_connection_and_nothing_else(data: bytes) -> None:
    anyio.run(_all, data, 7)
    too_large = (MAX_FRAME_BYTES + 1).to_bytes(4, "big") + data
    assert anyio.run(_all, too_large, 7) == []


def test_a_frame_that_is_too_deep_ends_the_connection_and_nothing_else() -> None:
    deep = b"[" * 100_000
    assert anyio.run(_all, framed(1) + len(deep).to_bytes(4, "big") + deep, 1 << 16) == [1]


@asynccontextmanager
async def pair(asked: Any = None, told: Any = None) -> AsyncIterator[tuple[Link, Link, UnixStream]]:
    """Two ends; the second answers by ``asked`` and ``told``."""
    one, two = socket.socketpair()
    ours, theirs = UnixStream(one), UnixStream(two)

    async def nothing(_name: str, _body: Any) -> None:
        raise AssertionError

    mine = Link(ours, asked=nothing, told=lambda _name, _body: None)
    other = Link(theirs, asked=asked or nothing, told=told or (lambda _name, _body: None))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(mine.run)
        tasks.start_soon(other.run)
        yield mine, other, theirs
        mine.close()
        other.close()


def test_requests_are_answered_side_by_side_and_refusals_keep_their_code() -> None:
    async def main() -> None:
        gate = anyio.Event()

        async def asked(name: str, body: Any) -> Any:
            if name == "wait":
                await gate.wait()
            if name == "refuse":
                raise refuse("stale_attempt", "it is over", remedy="begin anew")
            if name == "break":
                raise SandboxError("the ground gave way")
            if name == "open":
                gate.set()
            return {"of": body}

        answers: list[Any] = []
        async with pair(asked) as (link, _other, _stream):

            async def ask(name: str) -> None:
                answers.append(await link.ask(name, name))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, "wait")
                await anyio.sleep(0.01)
                tasks.start_soon(ask, "open")
            assert answers == [{"of": "open"}, {"of": "wait"}]
            with refused("stale_attempt"):
                await link.ask("refuse")
            with refused("checkpoint_error"):
                await link.ask("break")
            assert await link.ask("none") == {"of": None}

    anyio.run(main)


def test_messages_keep_their_order_and_come_before_requests_that_follow_them() -> None:
    async def main() -> None:
        seen: list[Any] = []

        async def asked(name: str, body: Any) -> Any:
            return list(seen)

        async with pair(asked, lambda name, body: seen.append((name, body))) as (link, _other, _stream):
            for number in range(100):
                link.tell("number", number)
            assert await link.ask("all") == [["number", number] for number in range(100)]

    anyio.run(main)


def test_what_was_asked_fails_when_the_other_side_goes() -> None:
    async def main() -> None:
        async def asked(name: str, body: Any) -> Any:
            await anyio.sleep_forever()

        async with pair(asked) as (link, other, _stream), anyio.create_task_group() as tasks:

            async def ask() -> None:
                with refused("checkpoint_coordinator_unavailable"):
                    await link.ask("for ever")

            tasks.start_soon(ask)
            await anyio.sleep(0.01)
            other.close()
            await anyio.sleep(0.01)
            with refused("checkpoint_coordinator_unavailable"):
                await link.ask("anything")
            link.tell("to nobody")

    anyio.run(main)


@pytest.mark.parametrize("value", [5, None, [1], "tell", {}, {"tell": "it"}, {"ask": 1}, {"answer": [1]}])
def test_who_is_not_understood_loses_its_own_connection_and_no_other(value: Any, tmp_path: Path) -> None:
    async def asked(_name: str, body: Any) -> Any:
        return body

    async def handler(stream: UnixStream) -> None:
        await Link(stream, asked=asked, told=lambda _name, _body: None).run()

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve, listening(tmp_path / "socket"), handler)
            good = Link(connected(tmp_path / "socket"), asked=asked, told=lambda _name, _body: None)
            tasks.start_soon(good.run)
            bad = connected(tmp_path / "socket")
            await bad.send(framed(value))
            with anyio.fail_after(5), pytest.raises(anyio.EndOfStream):
                await bad.receive()
            await bad.aclose()
            assert await good.ask("still", "there") == "there"
            tasks.cancel_scope.cancel()

    anyio.run(main)


@pytest.mark.parametrize("waits", ["for bytes", "for a connection"])
def test_who_is_cancelled_as_something_arrives_leaves_no_complaint(waits: str, tmp_path: Path) -> None:
    """Both in one turn of the event loop, which tells of what its callbacks raise, and nobody else does."""
    said: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: said.append(str(context["message"])))
        with listening(tmp_path / "socket") as listener:
            ours = connected(tmp_path / "socket")
            theirs = UnixStream(listener.accept()[0])
            async with anyio.create_task_group() as tasks:
                if waits == "for bytes":
                    tasks.start_soon(theirs.receive)
                else:
                    tasks.start_soon(serve, listener, UnixStream.aclose)
                await anyio.sleep(0.05)
                loop.call_soon(tasks.cancel_scope.cancel)
                if waits == "for bytes":
                    ours._sock.send(b"x")
                else:
                    await connected(tmp_path / "socket").aclose()
            await ours.aclose()
            await theirs.aclose()

    anyio.run(main)
    assert said == []


def test_a_listener_without_descriptors_waits_for_some_and_costs_nothing(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def main() -> float:
        served = anyio.Event()

        async def handler(stream: UnixStream) -> None:
            served.set()
            await stream.aclose()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve, listening(tmp_path / "socket"), handler)
            with socket.socket(socket.AF_UNIX) as client:
                resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
                try:
                    client.connect(str(tmp_path / "socket"))
                    began = time.process_time()
                    await anyio.sleep(1.0)
                    spent_s = time.process_time() - began
                    assert not served.is_set()
                finally:
                    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
                with anyio.fail_after(10):
                    await served.wait()
            tasks.cancel_scope.cancel()
        return spent_s

    assert anyio.run(main) < 0.3
