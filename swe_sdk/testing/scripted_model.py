"""A model endpoint that plays a script, for tests of agents: real harnesses, no network, no model.

It speaks chat completions, responses and messages, each streamed or not, and listens on loopback::

    from swe_sdk.testing import ScriptedModel, act, say, use

    with ScriptedModel([act(use("bash", command="sed -i s/-/+/ calc.py")), say("done")]) as model:
        ...  # an agent with base_url=model.url
    assert [played.turn for played in model.requests] == [0, 1]

What it answers depends on the history in the request alone (how many turns of the model are in it), so that a step
that is repeated after a crash gets the same reply, and shows in the log as a repeated turn.
"""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from types import TracebackType
from typing import Self, cast

from anyio import to_thread

from swe_sdk._loop import LoopThread
from swe_sdk.testing.scripted.app import App, Played, Stage
from swe_sdk.testing.scripted.requests import ModelRequest
from swe_sdk.testing.scripted.script import (
    Fault,
    Role,
    Script,
    ToolUse,
    Turn,
    Usage,
    act,
    fail,
    say,
    use,
)

__all__ = [
    "Fault",
    "ModelRequest",
    "Played",
    "Role",
    "ScriptedModel",
    "ToolUse",
    "Turn",
    "Usage",
    "act",
    "fail",
    "say",
    "use",
]


class ScriptedModel:
    """A server on loopback, in a thread of its own, while its ``with`` (or ``async with``) block runs.

    ``script`` is a list of turns and faults, a function of the request, a mapping of such by model name, or a list of
    :class:`Role`, of which the first that accepts a request plays it. Requests without tools (harnesses ask for a title
    that way) get ``title`` and do not play the script; with ``title=None`` they do. ``api_key`` is required of callers
    where it is given.
    """

    def __init__(
        self,
        script: Script | Mapping[str, Script] | Sequence[Role],
        *,
        models: Sequence[str] = ("scripted",),
        title: str | None = "Scripted title",
        api_key: str | None = None,
        port: int = 0,
    ) -> None:
        names = tuple(script) if isinstance(script, Mapping) else tuple(models)
        self._stage = Stage(_roles(script), names, title, api_key)
        self._port = port
        self._loop = LoopThread()
        self._serving: AbstractContextManager[None] | None = None

    # -- life -------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._serve()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._refuse()
        self._loop.close()

    async def __aenter__(self) -> Self:
        return await to_thread.run_sync(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await to_thread.run_sync(lambda: self.__exit__(None, None, None))

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Within the block connections are refused; those that were open are reset. The port stays the same."""
        self._refuse()
        try:
            yield
        finally:
            self._serve()

    def _serve(self) -> None:
        from swe_sdk.agents.gateway.serving import listen_on  # uvicorn comes with it, and is for those who serve

        listener = listen_on(port=self._port)
        self._port = listener.getsockname()[1]
        self._serving = self._loop.portal().wrap_async_context_manager(self._listening(listener))
        self._serving.__enter__()

    def _refuse(self) -> None:
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.__exit__(None, None, None)

    @asynccontextmanager
    async def _listening(self, listener: socket.socket) -> AsyncIterator[None]:
        from swe_sdk.agents.gateway.serving import HttpService

        async with HttpService(App(self._stage)).serve(listener):
            yield

    # -- use --------------------------------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        return self._port

    @property
    def url(self) -> str:
        """The base URL, as OpenAI's clients take it: it ends in ``/v1``."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def model(self) -> str:
        """The name of the first model."""
        return self._stage.models[0]

    @property
    def calls(self) -> tuple[Played, ...]:
        """Every call, those for titles and those that failed included, in the order in which they came."""
        with self._stage.changed:
            return tuple(self._stage.played)

    @property
    def requests(self) -> tuple[Played, ...]:
        """The calls that got a turn of the script."""
        return tuple(played for played in self.calls if played.kind == "turn")

    @property
    def turns(self) -> list[int]:
        """Which turns were asked for, in order: a repeated step is a repeated number."""
        return [played.turn for played in self.requests]

    def open_gate(self, name: str) -> None:
        """Let go the replies of turns that have this gate."""
        self._stage.note(lambda: self._stage.open_gates.add(name))

    def wait_for(self, accept: Callable[[tuple[Played, ...]], bool] | int, timeout_s: float = 10.0) -> None:
        """Wait for so many calls, or until ``accept`` takes the list of them; ``TimeoutError`` says what there was."""
        is_enough = accept if callable(accept) else lambda calls: len(calls) >= accept
        deadline = time.monotonic() + timeout_s
        with self._stage.changed:
            while not is_enough(tuple(self._stage.played)):
                if not self._stage.changed.wait(deadline - time.monotonic()):
                    seen = [(played.kind, played.turn, played.end) for played in self._stage.played]
                    raise TimeoutError(f"after {timeout_s} s the model has been called so: {seen}")

    async def wait_for_async(self, accept: Callable[[tuple[Played, ...]], bool] | int, timeout_s: float = 10.0) -> None:
        """The same, for who must not block."""
        await to_thread.run_sync(lambda: self.wait_for(accept, timeout_s))


def _roles(script: Script | Mapping[str, Script] | Sequence[Role]) -> list[Role]:
    if isinstance(script, Mapping):
        return [_role_of(model, part) for model, part in script.items()]
    if not callable(script) and script and isinstance(script[0], Role):
        return [role for role in script if isinstance(role, Role)]
    return [Role(lambda _request: True, cast(Script, script))]


def _role_of(model: str, script: Script) -> Role:
    return Role(lambda request: request.model == model, script, model)
