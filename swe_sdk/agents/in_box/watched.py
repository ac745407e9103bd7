"""A program in the box that parks in place, and that we may have to end because it has reached a limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import anyio

from swe_sdk.agents.contract import Episode
from swe_sdk.agents.in_box.program import run_program
from swe_sdk.model.exec_result import ExecResult

_SETTLED_S = 0.05


class Watcher(Protocol):
    """Reads what a program prints, and says when it must be ended."""

    def take(self, line: dict[str, Any], /) -> None:
        """One object of its standard output."""

    def state(self) -> dict[str, Any]:
        """All that the agent needs to go on from where the program stands now, waiting for the model."""

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
    cwd: str | None = None,
    on_complaint: Callable[[bytes], None] | None = None,
) -> ExecResult | None:
    """Run it as :func:`~swe_sdk.agents.in_box.program.run_program` does, to its end; None where we ended it."""
    result = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(park_in_place, episode, watcher.state)
        tasks.start_soon(_cancel_when_over, watcher, tasks.cancel_scope)
        result = await run_program(
            episode, name, command, env=env, stdin=stdin, cwd=cwd, on_object=watcher.take, on_complaint=on_complaint
        )
        tasks.cancel_scope.cancel()
    return result


async def park_in_place(episode: Episode, state: Callable[[], dict[str, Any]]) -> None:
    """Come to a boundary as often as the episode is asked to: the program stands still there, waiting for the model.

    Nobody ends it. Where its box is frozen the supervisor stops every process for that, and it goes on afterwards as
    if the model had taken its time; a process elsewhere goes on from ``state()``, and makes that call again.
    """
    while True:
        await episode.wait_park_requested()
        async with episode.awaiting_model():
            await anyio.sleep(_SETTLED_S)  # what it has printed before the call comes by another way
            await episode.boundary(state())


async def _cancel_when_over(watcher: Watcher, scope: anyio.CancelScope) -> None:
    await watcher.wait_stop()
    scope.cancel()
