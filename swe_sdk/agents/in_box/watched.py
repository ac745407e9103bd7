"""A program in the box that we may have to end: because it was asked to park, or has reached a limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import anyio

from swe_sdk.agents.contract import Episode
from swe_sdk.agents.in_box.program import run_program
from swe_sdk.model.exec_result import ExecResult


class Watcher(Protocol):
    """Reads what a program prints, and says when it must be ended."""

    def take(self, line: dict[str, Any], /) -> None:
        """One object of its standard output."""

    def park(self) -> None:
        """The episode is asked to park: end the program as soon as it can go on from there."""

    async def wait_stop(self) -> None:
        """Until it must be ended."""


async def run_watched(
    episode: Episode,
    name: str,
    command: Sequence[str],
    watcher: Watcher,
    *,
    env: Mapping[str, str],
    stdin: bytes,
    on_complaint: Callable[[bytes], None] | None = None,
) -> ExecResult | None:
    """Run it as :func:`~swe_sdk.agents.in_box.program.run_program` does, to its end; None where we ended it."""
    result = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_park_when_asked, episode, watcher)
        tasks.start_soon(_cancel_when_over, watcher, tasks.cancel_scope)
        result = await run_program(
            episode, name, command, env=env, stdin=stdin, on_object=watcher.take, on_complaint=on_complaint
        )
        tasks.cancel_scope.cancel()
    return result


async def _park_when_asked(episode: Episode, watcher: Watcher) -> None:
    await episode.wait_park_requested()
    watcher.park()


async def _cancel_when_over(watcher: Watcher, scope: anyio.CancelScope) -> None:
    await watcher.wait_stop()
    scope.cancel()
