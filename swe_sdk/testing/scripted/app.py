"""The HTTP server of a scripted model."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import anyio

from swe_sdk.testing.scripted import replies
from swe_sdk.testing.scripted.requests import Api, ModelRequest, read_request
from swe_sdk.testing.scripted.script import Entry, Fault, Role, Turn, Usage, entry_at

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

    from swe_sdk.agents.gateway.exchange import Exchange

_APIS: dict[str, Api] = {"/chat/completions": "chat", "/responses": "responses", "/messages": "messages"}
_LIMIT_BYTES = 1 << 30
_GATE_POLL_S = 0.005


@dataclass
class Played:
    """One call of the model, as it was answered; it changes until it has an end."""

    path: str
    request: ModelRequest | None
    """None where the body was none."""
    entry: Entry
    kind: Literal["turn", "title", "fault"]
    role: str = ""
    """The name of the role or model whose script was played."""
    started_at: float = 0.0
    """Seconds on the monotonic clock."""
    ended_at: float | None = None
    end: Literal["pending", "delivered", "broken"] = "pending"
    """*broken*: the caller has hung up, or the script has cut the connection."""

    @property
    def turn(self) -> int:
        """Which turn was asked for; -1 where the request was none."""
        return -1 if self.request is None else self.request.turn

    @property
    def status(self) -> int:
        """The status code of the reply."""
        return self.entry.status if isinstance(self.entry, Fault) else 200

    def finish(self, end: Literal["delivered", "broken"]) -> None:
        """It has ended."""
        self.ended_at, self.end = time.monotonic(), end


class Stage:
    """What the model plays, what it has played, and the gates that hold it; shared by its thread and the test's."""

    def __init__(self, roles: Iterable[Role], models: tuple[str, ...], title: str | None, api_key: str | None) -> None:
        self.roles = tuple(roles)
        self.models = models
        self.title = title
        self.api_key = api_key
        self.played: list[Played] = []
        self.changed = threading.Condition()
        self.open_gates: set[str] = set()
        self._seen: Counter[tuple[str, str]] = Counter()

    def choose(self, request: ModelRequest) -> tuple[Entry, Literal["turn", "title", "fault"], str]:
        """What a request gets, of which kind, by which role."""
        if self.api_key is not None and request.api_key != self.api_key:
            return Fault(status=401, message="Incorrect API key provided"), "fault", ""
        if not request.tools and self.title is not None:
            return Turn(text=self.title, usage=Usage(prompt_tokens=3, completion_tokens=1)), "title", ""
        for role in self.roles:
            if role.when(request):
                entry = self._next(role, request)
                return entry, "fault" if isinstance(entry, Fault) else "turn", role.name
        return Fault(status=404, message=f"The model {request.model!r} does not exist"), "fault", ""

    def _next(self, role: Role, request: ModelRequest) -> Entry:
        entry = entry_at(role.script, request)
        if isinstance(entry, Turn) and entry.before:
            key = (role.name, request.digest)
            self._seen[key] += 1
            if self._seen[key] <= len(entry.before):
                return entry.before[self._seen[key] - 1]
        return entry

    def note(self, change: Callable[[], None]) -> None:
        """Change the log, and wake who waits for that."""
        with self.changed:
            change()
            self.changed.notify_all()


class App:
    """The ASGI application."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """One request."""
        from swe_sdk.agents.gateway.exchange import Exchange

        exchange = Exchange(scope, receive, send)
        if exchange.method == "GET":
            await self._list_models(exchange)
            return
        api = next((api for end, api in _APIS.items() if exchange.path.endswith(end)), None)
        if exchange.method != "POST" or api is None:
            await exchange.reply(404, replies.error_body(Fault(status=404, message="unknown path"), "chat"))
            return
        await self._answer(exchange, api)

    async def _list_models(self, exchange: Exchange) -> None:
        data = [{"id": name, "object": "model", "created": 1700000000, "owned_by": "script"} for name in self._models]
        await exchange.reply_json(200, {"object": "list", "data": data})

    @property
    def _models(self) -> tuple[str, ...]:
        return self._stage.models

    async def _answer(self, exchange: Exchange, api: Api) -> None:
        played = self._begin(exchange.path, api, await exchange.body(_LIMIT_BYTES), _key(exchange))
        from swe_sdk.agents.gateway.exchange import ClientGone

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_when_gone, exchange, tasks.cancel_scope)
                with suppress(ClientGone):
                    await self._play(exchange, api, played)
                tasks.cancel_scope.cancel()
        finally:
            self._end(played, "broken")

    def _end(self, played: Played, end: Literal["delivered", "broken"]) -> None:
        """It has ended, unless it had: noted before the caller knows, so that the log is never behind."""
        if played.ended_at is None:
            self._stage.note(lambda: played.finish(end))

    def _begin(self, path: str, api: Api, body: bytes, api_key: str | None) -> Played:
        """Decide what the request gets, and put it into the log."""
        try:
            request = read_request(api, json.loads(body), api_key)
        except (ValueError, AttributeError) as error:
            played = Played(path, None, Fault(status=400, message=f"not a request: {error}"), "fault")
        else:
            entry, kind, role = self._stage.choose(request)
            played = Played(path, request, entry, kind, role)
        played.started_at = time.monotonic()
        self._stage.note(lambda: self._stage.played.append(played))
        return played

    async def _play(self, exchange: Exchange, api: Api, played: Played) -> None:
        entry = played.entry
        await anyio.sleep(entry.delay_s)
        if isinstance(entry, Turn):
            await self._pass_gate(entry.gate)
            assert played.request is not None
            await _send(exchange, played.request, entry)
            self._end(played, "delivered")
            await exchange.end()
        elif entry.cut == "no" or played.request is None:
            self._end(played, "delivered")
            await exchange.reply(entry.status, replies.error_body(entry, api), entry.headers)
        else:
            if entry.cut == "within_reply":
                await _send(exchange, played.request, Turn(text="this is cut off " * 8), half=True)
            self._end(played, "broken")
            await exchange.cut()

    async def _pass_gate(self, gate: str | None) -> None:
        while gate is not None and gate not in self._stage.open_gates:
            await anyio.sleep(_GATE_POLL_S)


async def _send(exchange: Exchange, request: ModelRequest, turn: Turn, *, half: bool = False) -> None:
    """A turn, streamed or whole, but for its end; ``half``: but for most of it."""
    if request.stream:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        parts = replies.stream(request, turn)
    else:
        headers = [(b"content-type", b"application/json")]
        parts = replies.whole(request, turn)
    await exchange.begin(200, headers)
    for number, part in enumerate(parts):
        if half and (number == 3 or not request.stream):
            await exchange.write(part[: len(part) // 2])
            return
        if request.stream and turn.chunk_delay_s:
            await anyio.sleep(turn.chunk_delay_s)
        await exchange.write(part)


async def _cancel_when_gone(exchange: Exchange, scope: anyio.CancelScope) -> None:
    await exchange.gone()
    scope.cancel()


def _key(exchange: Exchange) -> str | None:
    bearer = exchange.header("authorization") or ""
    return bearer.removeprefix("Bearer ") if bearer.startswith("Bearer ") else exchange.header("x-api-key")
