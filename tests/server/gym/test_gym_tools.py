"""Tools over MCP: the protocol, tokens that any worker checks, tools that block."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.errors import CheckpointError
from swe_sdk.server.gym.tokens import Grant, Signer
from swe_sdk.server.gym.tools import ReadArguments, Tool, ToolText, run_tool
from tests.server.gym.conftest import StartGym
from tests.server.gym.gym_servers import SECRET, GymProcess, mcp_call
from tests.server.gym.test_gym_sessions import Seeded

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def session(resources: GymProcess) -> Iterator[Seeded]:
    session = Seeded(resources, "tools")
    yield session
    assert session.close() == 200


@pytest.fixture(scope="module")
def client(resources: GymProcess) -> Iterator[httpx.Client]:
    with resources.client() as client:
        yield client


def text_of(result: dict[str, Any]) -> str:
    (part,) = result["content"]
    return str(part["text"])


def test_tools_work_in_the_lent_sandbox(client: httpx.Client, session: Seeded) -> None:
    token = session.tools_token
    written = mcp_call(client, token, "write_file", path="notes.txt", content="one\ntwo\nthree\n")
    assert not written["isError"]
    assert text_of(mcp_call(client, token, "read_file", path="notes.txt", first_line=2, lines=1)).startswith("two\n")
    assert not mcp_call(client, token, "replace_in_file", path="notes.txt", old="two", new="2")["isError"]
    missed = mcp_call(client, token, "replace_in_file", path="notes.txt", old="two", new="2")
    assert (missed["isError"], "0 times" in text_of(missed)) == (True, True)
    ran = mcp_call(client, token, "exec", command="cat notes.txt; exit 4")
    assert (ran["isError"], text_of(ran)) == (True, "one\n2\nthree\n\n[the command exited with code 4]")
    assert mcp_call(client, token, "exec", command="sleep 60", timeout_s=0.2)["isError"]
    assert mcp_call(client, token, "read_file", path="not/there")["isError"]
    assert "command" in text_of(mcp_call(client, token, "exec"))


def test_a_file_that_is_too_large_for_memory_is_an_error_that_says_what_to_do(
    client: httpx.Client, session: Seeded
) -> None:
    assert not mcp_call(client, session.tools_token, "exec", command="truncate -s 100M large")["isError"]
    for tool, arguments in [("read_file", {"lines": 1}), ("replace_in_file", {"old": "a", "new": "b"})]:
        told = mcp_call(client, session.tools_token, tool, path="large", **arguments)
        assert told["isError"]
        assert "large is larger than 8,388,608 bytes" in text_of(told)
        assert "take a part of it, by a command" in text_of(told)
    assert not mcp_call(client, session.tools_token, "exec", command="rm large; seq 1000000 > long")["isError"]
    assert text_of(mcp_call(client, session.tools_token, "read_file", path="long", first_line=999_999)).startswith(
        "9999"
    )


def test_arguments_that_no_system_takes_are_errors_of_the_tool(client: httpx.Client, session: Seeded) -> None:
    """NUL ends a name, lone surrogates stand for no bytes, and some things are of the wrong kind altogether."""
    for tool, arguments in [
        ("exec", {"command": "echo a\0b"}),
        ("exec", {"command": "true", "cwd": "a\0b"}),
        ("exec", {"command": "true", "cwd": "/not/there"}),
        ("read_file", {"path": "a\0b"}),
        ("read_file", {"path": "x" * 10_000}),
        ("read_file", {"path": "/dev/zero"}),
        ("read_file", {"path": "/proc/1/mem"}),
        ("write_file", {"path": "a\0b", "content": ""}),
        ("write_file", {"path": "/", "content": ""}),
    ]:
        assert mcp_call(client, session.tools_token, tool, **arguments)["isError"], (tool, arguments)
    headers = {"X-NeMo-Gym-Session-Token": session.tools_token}
    for told in ('"echo \\ud800"', "7", "null", '["a"]'):
        params = f'{{"name": "exec", "arguments": {{"command": {told}}}}}'
        body = f'{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {params}}}'
        answer = client.post("/mcp", content=body, headers=headers)
        assert answer.status_code in (200, 400), answer.text
        assert "error" in answer.json() or answer.json()["result"]["isError"], told


@pytest.mark.parametrize("token", [None, "", "no.token", "lent"], ids=["none", "empty", "forged", "of the sandbox"])
def test_an_auth_failure_is_a_tool_error(client: httpx.Client, session: Seeded, token: str | None) -> None:
    """Its words reach the model; a transport error would look like an outage to a harness."""
    shown = session.access.connection.descriptor["token"] if token == "lent" else token
    result = mcp_call(client, shown, "exec", command="true")
    assert result["isError"]
    assert "token" in text_of(result)


def test_tokens_of_another_attempt(resources: GymProcess, client: httpx.Client) -> None:
    first = Seeded(resources, "tool-attempts")
    second = Seeded(resources, "tool-attempts", attempt=1)
    assert mcp_call(client, first.tools_token, "exec", command="true")["isError"]
    assert not mcp_call(client, second.tools_token, "exec", command="true")["isError"]
    assert second.close() == 200
    over = mcp_call(client, second.tools_token, "exec", command="true")
    assert (over["isError"], "no session" in text_of(over)) == (True, True)


def test_any_server_with_the_secret_takes_a_token(
    start_gym: StartGym, gym_home: Path, session: Seeded, tmp_path: Path
) -> None:
    """It keeps nothing: what it needs is in the token, the address of the session's owner too."""
    (tmp_path / "other").write_text("another secret")
    other = start_gym("resources")
    stranger = start_gym("resources", "--secret-file", str(tmp_path / "other"))
    with other.client() as client:
        passed_on = mcp_call(client, session.tools_token, "exec", command="echo from $PWD")
        assert (passed_on["isError"], "from /" in text_of(passed_on)) == (False, True)
    with stranger.client() as client:
        refused = mcp_call(client, session.tools_token, "exec", command="true")
        assert (refused["isError"], "not one of this server's" in text_of(refused)) == (True, True)
    other.stop()
    stranger.stop()


async def test_the_protocols_own_client(resources: GymProcess, session: Seeded) -> None:
    """The official package, as harnesses use it."""
    mcp = pytest.importorskip("mcp", reason="needs the package mcp, which the dev extra brings")
    headers = {"X-NeMo-Gym-Session-Token": session.tools_token}
    async with official_session(mcp, f"{resources.url}/mcp", headers) as talk:
        names = {tool.name for tool in (await talk.list_tools()).tools}
        assert names == {"exec", "read_file", "write_file", "replace_in_file"}
        result = await talk.call_tool("exec", {"command": "echo hello"})
        assert result.content[0].text.startswith("hello\n")


def official_session(mcp: Any, url: str, headers: dict[str, str]) -> Any:
    from contextlib import asynccontextmanager

    from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

    @asynccontextmanager
    async def talk() -> Any:
        async with create_mcp_http_client(headers=headers) as http:
            async with streamable_http_client(url, http_client=http) as streams:
                async with mcp.ClientSession(streams[0], streams[1]) as session:
                    await session.initialize()
                    yield session

    return talk()


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, -32700),
        (b"[]", 400, -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 3}', 400, -32600),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', 400, -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}', 200, -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "nothing"}}', 200, -32602),
    ],
)
def test_what_is_no_call(client: httpx.Client, body: bytes, status: int, code: int) -> None:
    answer = client.post("/mcp", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_notifications_are_heard_and_pages_of_browsers_are_not(client: httpx.Client) -> None:
    heard = client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (heard.status_code, heard.content) == (202, b"")
    assert client.get("/mcp").status_code == 405
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "http://evil.example", "Host": "evil.example"},  # a name that its owner has bound to this machine
        {"Origin": "null"},
    ):
        assert client.post("/mcp", json=call, headers=headers).status_code == 401, headers
    own = str(client.base_url).rstrip("/")
    assert client.post("/mcp", json=call, headers={"Origin": own}).status_code == 200


async def test_a_tool_that_blocks_runs_beside_the_loop() -> None:
    threads, ticks = [], []

    def block(box: Any, told: ReadArguments) -> ToolText:
        threads.append(threading.current_thread())
        time.sleep(0.5)
        return ToolText(anyio.from_thread.run(box, told.path))

    async def box(path: str) -> str:
        return f"read {path}"

    tool = Tool("blocks", "", ReadArguments, block)
    async with anyio.create_task_group() as tasks:

        async def tick() -> None:
            while True:
                ticks.append(time.monotonic())
                await anyio.sleep(0.01)

        tasks.start_soon(tick)
        said = await run_tool(tool, box, ReadArguments(path="a"), anyio.CapacityLimiter(1))  # type: ignore[arg-type]
        tasks.cancel_scope.cancel()
    assert said == ToolText("read a")
    assert threads[0] is not threading.main_thread()
    assert len(ticks) > 5, "the loop went on"


def test_a_token_says_what_it_is_for() -> None:
    now = [1000.0]
    signer = Signer(SECRET.encode(), clock=lambda: now[0])
    told = {"session_id": "s", "episode_id": EpisodeId(rollout_id="r", attempt=2), "owner": "http://o"}
    grant = Grant.model_validate({**told, "purpose": "tools", "expires_at": 1010.0})
    token = signer.issue(grant)
    assert signer.issue(grant) == token
    assert Signer(SECRET.encode(), clock=lambda: now[0]).check(token, "tools") == grant
    said, _, signature = token.partition(".")
    for wrong in (f"{said}.", f"{said[:-2]}.{signature}", f".{signature}", said, "\xff.\xff", "x" * 10_000):
        with pytest.raises(CheckpointError, match="missing, or not one"):
            signer.check(wrong, "tools")
    with pytest.raises(CheckpointError, match="for tools, not for sandbox"):
        signer.check(token, "sandbox")
    now[0] = 1010.0
    with pytest.raises(CheckpointError, match="expired"):
        signer.check(token, "tools")
