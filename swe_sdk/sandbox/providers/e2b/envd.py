"""The program inside of every sandbox, envd: commands and files.

Its commands are calls of the Connect protocol (:mod:`swe_sdk.sandbox.providers.e2b.connect`); who stops to listen ends
none of them. Files go by ``GET`` and ``POST /files``, which needs envd 0.5.7 or later.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from swe_sdk.sandbox.providers.e2b.answers import failed_call, unanswered
from swe_sdk.sandbox.providers.e2b.connect import CONTENT_TYPE, Decoder, End, Message, WireError, envelope
from swe_sdk.sandbox.providers.e2b.http import Connections
from swe_sdk.sandbox.providers.e2b.settings import ENVD_PORT
from swe_sdk.sandbox.providers.remote.failures import FileMissing, NotThere, RemoteTrouble, Silent

_PIECE_BYTES = 1 << 18
_SMALL_BYTES = 1 << 20
_MOST_AT_ONCE = 50
_OCTETS = "application/octet-stream"
_PLAIN = re.compile(r"[A-Za-z0-9._/+@=-]+")
_HEALTH_TIMEOUT_S = 5.0
_KEEPALIVE_S = 15
"""How often a command that prints nothing says that it is there: less than a request's time limit."""
_TOO_FAR = 416
_PARTIAL = 206


@dataclass(frozen=True)
class Address:
    """Where the envd of one sandbox is, and what admits us there."""

    sandbox: str
    url: str
    token: str = field(repr=False)

    def headers(self, user: str) -> dict[str, str]:
        """Of every request; gateways to several sandboxes go by the first two."""
        return {
            "E2b-Sandbox-Id": self.sandbox,
            "E2b-Sandbox-Port": str(ENVD_PORT),
            "X-Access-Token": self.token,
            "Authorization": f"Basic {base64.b64encode(f'{user}:'.encode()).decode()}",
        }


class Envd:
    """Calls to the envd of any sandbox, as one of its users."""

    def __init__(self, connections: Connections, user: str) -> None:
        self._connections = connections
        self._user = user

    async def is_healthy(self, address: Address) -> bool:
        """Whether it answers."""
        url, headers = f"{address.url}/health", address.headers(self._user)
        try:
            await self._connections.ask("look at envd", "GET", url, headers=headers, within_s=_HEALTH_TIMEOUT_S)
        except RemoteTrouble:
            return False
        return True

    # -- commands ---------------------------------------------------------------------------------------------------

    async def start(self, address: Address, argv: list[str], env: Mapping[str, str]) -> AsyncGenerator[bytes]:
        """Start a program, and yield what it prints on standard output, until it has ended, however that was.

        Raises ``Silent`` where the connection breaks before that.
        """
        what = "run a command"
        request = {"process": {"cmd": argv[0], "args": argv[1:], "envs": dict(env), "cwd": "/"}, "stdin": False}
        headers = {
            **address.headers(self._user),
            "Content-Type": CONTENT_TYPE,
            "Connect-Protocol-Version": "1",
            "Keepalive-Ping-Interval": str(_KEEPALIVE_S),
        }
        url = f"{address.url}/process.Process/Start"
        async with self._connections.open(what, "POST", url, headers=headers, content=envelope(request)) as answer:
            async for event in _events(answer.aiter_bytes(), what):
                if data := _printed(event):
                    yield data

    # -- files ------------------------------------------------------------------------------------------------------

    async def upload(self, address: Address, files: Sequence[tuple[str, bytes | Path]]) -> None:
        """Create or replace files, and the directories above them: many small ones by one request, others one by one.

        The fields of a form take no odd names, so files that have such ones go alone as well.
        """
        small: list[tuple[str, bytes]] = []
        for path, data in files:
            if _PLAIN.fullmatch(path) and await _size(data) <= _SMALL_BYTES:
                small.append((path, data if isinstance(data, bytes) else await anyio.Path(data).read_bytes()))
            else:
                await self._upload_one(address, path, data)
            if len(small) >= _MOST_AT_ONCE:
                await self._upload_small(address, small)
                small = []
        if small:
            await self._upload_small(address, small)

    async def _upload_small(self, address: Address, files: list[tuple[str, bytes]]) -> None:
        form = [("file", (path, data, _OCTETS)) for path, data in files]
        await self._post_files(address, f"write {len(files)} files", {}, {}, files=form)

    async def _upload_one(self, address: Address, path: str, data: bytes | Path) -> None:
        content = data if isinstance(data, bytes) else _pieces(data)
        await self._post_files(address, f"write {path}", {"path": path}, {"Content-Type": _OCTETS}, content=content)

    async def _post_files(
        self, address: Address, what: str, query: dict[str, str], kind: dict[str, str], **body: Any
    ) -> None:
        params, headers = {"username": self._user, **query}, {**address.headers(self._user), **kind}
        await self._connections.ask(what, "POST", f"{address.url}/files", params=params, headers=headers, **body)

    async def download(self, address: Address, path: str, offset: int) -> AsyncGenerator[bytes]:
        """A file from an offset on, in pieces: none where it is no longer than that. ``FileMissing``."""
        headers = {**address.headers(self._user), **({"Range": f"bytes={offset}-"} if offset else {})}
        url, params = f"{address.url}/files", {"path": path, "username": self._user}
        try:
            async with self._connections.open(f"read {path}", "GET", url, params=params, headers=headers) as answer:
                left = 0 if answer.status_code == _PARTIAL else offset
                async for piece in answer.aiter_bytes(_PIECE_BYTES):
                    if len(piece) > left:
                        yield piece[left:]
                    left = max(0, left - len(piece))
        except NotThere as error:
            raise await self._what_is_missing(address, error) from error
        except RemoteTrouble as error:
            if getattr(error, "status", 0) != _TOO_FAR:
                raise

    async def _what_is_missing(self, address: Address, error: NotThere) -> RemoteTrouble:
        """The file, or the whole sandbox: gateways answer with the same status."""
        return FileMissing(error.message) if await self.is_healthy(address) else error


async def _events(pieces: AsyncIterator[bytes], what: str) -> AsyncIterator[Message]:
    """What happens to a program, up to its end; ``Silent`` where the stream breaks off before that.

    The stream is read to its own end, or its connection could not be used again.
    """
    decoder, is_over = Decoder(), False
    try:
        async for piece in pieces:
            decoder.feed(piece)
            while (message := decoder.next()) is not None:
                if isinstance(message, End):
                    if message.code and not is_over:
                        raise failed_call(what, message.code, message.message)
                elif isinstance(event := message.get("event"), dict):
                    is_over = is_over or "end" in event
                    yield event
    except WireError as error:
        raise unanswered(what, error) from error
    if not is_over:
        raise Silent(f"{what}: the connection ended before the command did")


def _printed(event: Message) -> bytes:
    data: Any = event.get("data")
    text = data.get("stdout") if isinstance(data, dict) else None
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except binascii.Error as error:
        raise unanswered("run a command", error) from error


async def _size(data: bytes | Path) -> int:
    return len(data) if isinstance(data, bytes) else (await anyio.Path(data).stat()).st_size


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    async with await anyio.open_file(path, "rb") as file:
        while piece := await file.read(_PIECE_BYTES):
            yield piece
