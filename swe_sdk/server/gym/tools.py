"""The tools that a session lends beside its sandbox itself: what a model can do in it by name."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

import anyio
from anyio import to_thread
from pydantic import Field

from swe_sdk.errors import InputError
from swe_sdk.model.record import Record
from swe_sdk.sandbox.contract import Box
from swe_sdk.server.gym.fetching import fetched

_SHOWN_BYTES = 64 << 10
"""Of what a command prints: half of its beginning, half of its end."""
_SHOWN_CHARACTERS = 100_000
_FILE_BYTES = 8 << 20
"""The largest file that is read or changed as a whole; of larger ones, commands show and change parts."""
_THREADS = 16


class ToolText(NamedTuple):
    """What a tool says. A failure of what was asked for is an answer like any other, marked as one."""

    text: str
    is_error: bool = False


class Tool(NamedTuple):
    """A tool by name.

    ``run`` gets the sandbox and the arguments. A plain function runs in a thread, so that it may block; there,
    ``anyio.from_thread.run(box.exec, ...)`` calls the sandbox.
    """

    name: str
    description: str
    arguments: type[Record]
    run: Callable[[Box, Any], Awaitable[ToolText] | ToolText]


class ExecArguments(Record):
    """Arguments of ``exec``."""

    command: str = Field(min_length=1, description="A shell line.")
    cwd: str | None = Field(default=None, description="Where to run it; default: the repository.")
    timeout_s: float = Field(default=300.0, gt=0, le=3600, description="Seconds until it is killed.")


class ReadArguments(Record):
    """Arguments of ``read_file``."""

    path: str = Field(min_length=1, description="Relative paths start at the repository.")
    first_line: int = Field(default=1, ge=1, description="Counted from 1.")
    lines: int = Field(default=2000, ge=1, le=100_000, description="How many lines at most.")


class WriteArguments(Record):
    """Arguments of ``write_file``."""

    path: str = Field(min_length=1, description="Relative paths start at the repository.")
    content: str = Field(description="All of the new content, as text.")


class ReplaceArguments(Record):
    """Arguments of ``replace_in_file``."""

    path: str = Field(min_length=1, description="Relative paths start at the repository.")
    old: str = Field(min_length=1, description="Text that occurs exactly once in the file.")
    new: str = Field(description="What stands in its place.")


async def run_tool(tool: Tool, box: Box, arguments: Record, threads: anyio.CapacityLimiter) -> ToolText:
    """What a tool says; one that blocks does so in a thread."""
    if inspect.iscoroutinefunction(tool.run):
        said: ToolText = await tool.run(box, arguments)
    else:
        said = await to_thread.run_sync(partial(_run, tool, box, arguments), limiter=threads, abandon_on_cancel=True)
    return said


def _run(tool: Tool, box: Box, arguments: Record) -> ToolText:
    said = tool.run(box, arguments)
    assert isinstance(said, ToolText), f"the tool {tool.name} returned {type(said).__name__}"
    return said


def tool_threads() -> anyio.CapacityLimiter:
    """Threads for tools that block, apart from those of everything else."""
    return anyio.CapacityLimiter(_THREADS)


async def _exec(box: Box, told: ExecArguments) -> ToolText:
    result = await box.exec(
        told.command, cwd=told.cwd, timeout_s=told.timeout_s, merge_stderr=True, output_bytes=_SHOWN_BYTES
    )
    dropped = f"\n[{result.stdout_dropped_bytes} bytes left out of the middle]" if result.truncated else ""
    return ToolText(f"{result.stdout}{dropped}\n[the command {result.summary}]", not result.ok)


async def _read(box: Box, told: ReadArguments) -> ToolText:
    data = await _content(box, told.path)
    return ToolText(await to_thread.run_sync(_window, data, told.first_line, told.lines))


async def _content(box: Box, path: str) -> bytes:
    """Of a file that fits into memory; ``TransferFailed`` for any other, which the model is told."""
    async with fetched(box, path, _FILE_BYTES) as local:
        return await to_thread.run_sync(local.read_bytes)


def _window(data: bytes, first: int, count: int) -> str:
    lines = data.decode("utf-8", "replace").splitlines(keepends=True)
    text = "".join(lines[first - 1 : first - 1 + count])
    if len(text) > _SHOWN_CHARACTERS:
        return f"{text[:_SHOWN_CHARACTERS]}\n[{len(text) - _SHOWN_CHARACTERS} characters left out]"
    left = len(lines) - (first - 1 + count)
    return f"{text}\n[{left} more lines]" if left > 0 else text


async def _write(box: Box, told: WriteArguments) -> ToolText:
    await box.write(told.path, _bytes(told.content))
    return ToolText(f"wrote {told.path}")


async def _replace(box: Box, told: ReplaceArguments) -> ToolText:
    data, old = await _content(box, told.path), _bytes(told.old)
    found = await to_thread.run_sync(data.count, old)
    if found != 1:
        return ToolText(f"the old text occurs {found} times in {told.path}, not once; nothing was changed", True)
    await box.write(told.path, await to_thread.run_sync(data.replace, old, _bytes(told.new)))
    return ToolText(f"changed {told.path}")


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InputError("the text holds lone surrogates, which stand for no bytes") from None


TOOLS: tuple[Tool, ...] = (
    Tool("exec", "Run a shell line in the sandbox, and get what it prints and how it ended.", ExecArguments, _exec),
    Tool("read_file", "Read lines of a file of the sandbox.", ReadArguments, _read),
    Tool("write_file", "Create or replace a file of the sandbox.", WriteArguments, _write),
    Tool("replace_in_file", "Replace a text that occurs once in a file.", ReplaceArguments, _replace),
)
