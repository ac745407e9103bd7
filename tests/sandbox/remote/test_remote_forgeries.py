"""What a program with root's powers may put in our supervisor's place: none of it is an accident in this process."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from io import BytesIO
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.errors import SandboxLost
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.boxside.recording import PIECE
from swe_sdk.sandbox.exec_client import ExecRequest, KillUnconfirmed
from swe_sdk.sandbox.providers.remote import calls, execution, moving
from swe_sdk.sandbox.providers.remote.calls import Calls
from swe_sdk.sandbox.providers.remote.engine import OnLine
from swe_sdk.sandbox.providers.remote.failures import FileMissing, Refused, Silent
from swe_sdk.sandbox.providers.remote.replies import Exit, Facts, Living, parsed

pytestmark = pytest.mark.anyio
_EXIT = {
    "ev": "exit",
    "exit_code": 0,
    "killed": False,
    "tree_gone": True,
    "has_starved": False,
    "duration_s": 1.0,
    "kept": [3, 0],
    "dropped": [0, 0],
}
_MIB = 1 << 20


class Forged:
    """A system in whose sandbox something else answers: as much of an engine as calls take."""

    def __init__(self, lines: list[str], content: bytes = b"", *, pieces: int | None = 1) -> None:
        self._lines = lines
        self._content = content
        self._pieces = pieces
        """How often the content comes; None = for ever."""
        self.rings = 0
        self.taken = 0

    async def run(self, sandbox: str, line: str, env: Mapping[str, str], on_line: OnLine) -> None:
        self.rings += 1
        await anyio.sleep(0)
        for one in self._lines:
            on_line(one)

    async def upload(self, sandbox: str, files: object) -> None:
        pass

    async def download(self, sandbox: str, path: str, offset: int = 0) -> AsyncGenerator[bytes]:
        while self._pieces is None or self.taken < self._pieces:
            await anyio.sleep(0)
            self.taken += 1
            yield self._content

    async def answers(self, sandbox: str) -> bool:
        return True


class Missing(Forged):
    """Nothing is where the reply is said to be."""

    async def download(self, sandbox: str, path: str, offset: int = 0) -> AsyncGenerator[bytes]:
        raise FileMissing(path)
        yield b""


def to(engine: Any) -> Calls:
    return Calls(engine, "i1", "/.swe_sdk/box/b", ["python"])


async def run(engine: Forged, on_output: Any = None, **options: Any) -> ExecResult:
    request = {"timeout_s": 20.0, "output_bytes": _MIB, "merge_stderr": False, "stdin": None, "run_as": None}
    wanted = ExecRequest(["true"], "/", {}, **{**request, **options}, on_output=on_output)
    return await execution.run(to(engine), "exec-1", wanted)


def told(header: object) -> list[str]:
    return ["taken", f"told {json.dumps(header)}"]


async def test_a_true_receipt_is_read() -> None:
    engine = Forged(["taken", "ended /r"], json.dumps(_EXIT).encode() + b"\nyes")
    result = await run(engine)
    assert (result.status, result.exit_code, result.stdout) == ("exited", 0, "yes")


@pytest.mark.parametrize(
    "header",
    [
        {name: value for name, value in _EXIT.items() if name != "kept"},
        {**_EXIT, "exit_code": "none"},
        {**_EXIT, "kept": [-1, 5]},
        {**_EXIT, "dropped": [0]},
        {**_EXIT, "duration_s": float("nan")},
        {**_EXIT, "tree_gone": None},
        {"ev": "error"},
        {"ev": "ok"},
        {"ev": 1},
        ["ev"],
        "exit",
        None,
    ],
)
async def test_a_forged_receipt_is_a_lost_box(header: object) -> None:
    assert (await run(Forged(told(header)))).status == "lost"


@pytest.mark.parametrize("line", ["told", "told {", "told " + "[" * 100_000, "ended", "nonsense", "ended /no/such"])
async def test_a_last_word_that_is_none_is_a_lost_box(line: str) -> None:
    assert (await run(Forged(["taken", line], b"\xff\xfe"))).status == "lost"


async def test_a_receipt_that_is_not_there_is_a_lost_box() -> None:
    assert (await run(Missing(["taken", "ended /no/such"]))).status == "lost"


async def test_a_receipt_without_an_end_is_not_taken() -> None:
    engine = Forged(["taken", "ended /dev/zero"], bytes(_MIB), pieces=None)
    assert (await run(engine)).status == "lost"
    assert engine.taken < 100


@pytest.mark.parametrize("lines", [["taken"], ["more"], ["taken", "more", "more"], []])
async def test_programs_that_say_nothing_of_use_are_asked_for_a_while_only(
    lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a time limit of the command."""
    monkeypatch.setattr(calls, "_REST_S", 0.001)
    engine = Forged(lines)
    with anyio.fail_after(10):
        assert (await run(engine, timeout_s=None)).status == "lost"
    assert engine.rings < 20


async def test_a_supervisor_that_is_stopped_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes no call any more, and our program beside it waits."""

    class Stopped(Forged):
        async def run(self, *_arguments: object) -> None:
            await anyio.sleep_forever()

    monkeypatch.setattr(calls, "_QUICK_S", 0.05)
    with anyio.fail_after(5), pytest.raises(SandboxLost, match="did not take a call"):
        await moving.transfer(to(Stopped([])), "read", "/f", BytesIO(), room=10, cut=False)
    with anyio.fail_after(5):
        assert (await run(Stopped([]), timeout_s=None)).status == "lost"


@pytest.mark.parametrize("pieces", [1, None])
async def test_no_more_is_taken_of_a_file_than_was_wanted(pieces: int | None) -> None:
    """Neither what it claims to be beyond its room, nor what comes beyond its claim."""
    file = BytesIO()
    for copied in (100, 11, 10):
        engine = Forged(told({"ev": "ok", "copied": copied}), b"x" * 11, pieces=pieces)
        with pytest.raises(SandboxLost):
            await moving.transfer(to(engine), "read", "/f", file, room=10, cut=True)
    assert file.getvalue() == b""


async def test_a_file_that_never_comes_through_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe in its place, say: everything else answers."""

    class Breaks(Forged):
        async def download(self, sandbox: str, path: str, offset: int = 0) -> AsyncGenerator[bytes]:
            self.taken += 1
            raise Silent("it hangs")
            yield b""

        async def upload(self, sandbox: str, files: object) -> None:
            self.taken += 1
            raise Silent("it hangs")

    monkeypatch.setattr(calls, "_REST_S", 0.001)
    engine = Breaks(told({"ev": "ok", "copied": 5}))
    with anyio.fail_after(10), pytest.raises(SandboxLost, match="hangs"):
        await moving.transfer(to(engine), "read", "/f", BytesIO(), room=10, cut=True)
    with anyio.fail_after(10), pytest.raises(SandboxLost, match="hangs"):
        await to(engine).upload()
    assert engine.taken < 50


@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=50)), max_size=10),
    st.lists(st.integers(min_value=1, max_value=40), min_size=1),
)
def test_a_live_stream_arrives_however_it_is_cut(pieces: list[tuple[int, bytes]], sizes: list[int]) -> None:
    names = {1: "stdout", 2: "stderr"}
    heard: dict[str, bytes] = {"stdout": b"", "stderr": b""}
    stream = execution.LiveStream(to(None), "exec-1", lambda name, data: heard.update({name: heard[name] + data}))
    data = b"".join(PIECE.pack(number, len(text)) + text for number, text in pieces)
    while data:
        stream._deliver(data[: sizes[0]])
        data, sizes = data[sizes[0] :], [*sizes[1:], sizes[0]]
    assert heard == {name: b"".join(text for n, text in pieces if n == number) for number, name in names.items()}


async def test_of_a_live_stream_nothing_is_held_back() -> None:
    """A piece may say that it is of four gigabytes; and another one that it is of no stream."""
    held: list[int] = []
    stream = execution.LiveStream(to(None), "exec-1", lambda _name, data: held.append(len(data)))
    stream._deliver(PIECE.pack(1, (1 << 32) - 1))
    for _ in range(5):
        stream._deliver(bytes(_MIB))
        assert len(stream._rest) == 0
    assert sum(held) == 5 * _MIB
    with pytest.raises(SandboxLost):
        execution.LiveStream(to(None), "exec-1", lambda _name, _data: None)._deliver(PIECE.pack(7, 1))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)
_FIELDS = [
    "ev",
    "kept",
    "dropped",
    "exit_code",
    "killed",
    "tree_gone",
    "has_starved",
    "duration_s",
    "env",
    "uid",
    "bash",
]
_HEADERS = st.dictionaries(st.sampled_from([*_FIELDS, "processes"]), _JSON) | _JSON


@given(_HEADERS.map(json.dumps).map(str.encode) | st.binary(max_size=50))
def test_any_header_is_a_reply_or_a_lost_box(header: bytes) -> None:
    for kind in (Exit, Facts, Living):
        try:
            parsed(header).read(kind)
        except SandboxLost:
            pass


async def test_processes_that_leave_no_room_for_ours_end_the_box() -> None:
    """Where not even the word to stop can be brought, the system ends the sandbox: nobody may outlive its limit."""

    class Full(Forged):
        async def run(self, sandbox: str, line: str, env: Mapping[str, str], on_line: OnLine) -> None:
            self.rings += 1
            if self.rings > 1:
                raise Refused("fork: Resource temporarily unavailable", status=500)
            on_line("taken")
            await anyio.sleep_forever()

    with pytest.raises(KillUnconfirmed) as unconfirmed:
        await run(Full([]), timeout_s=0.05)
    assert unconfirmed.value.result.status == "timeout"
