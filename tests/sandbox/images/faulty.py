"""A registry that fails on demand: what a real one does once a month, in every test."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.sandbox.images.oci import MadeImage

Answer = Callable[["Handler"], bool]
"""Answers a request in its own way, or returns False for the ordinary one."""


class FaultyRegistry(ThreadingHTTPServer):
    """One image, at ``a/b:latest``."""

    def __init__(self, image: MadeImage) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        blobs, manifest, media_type = image.parts()
        self.blobs = {f"sha256:{hashlib.sha256(blob).hexdigest()}": blob for blob in blobs}
        self.manifest, self.media_type = manifest, media_type
        self.host = f"127.0.0.1:{self.server_address[1]}"
        self.name = f"{self.host}/a/b:latest"
        self.answers: list[Answer] = []
        """For the next requests of blobs, one each."""
        self.always: Answer | None = None
        self.token: str | None = None
        """What it wants to be shown."""
        self.user: tuple[str, str] | None = None
        """Who gets a token."""
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.ranges = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who hangs up in the middle is what it is about."""

    @property
    def largest(self) -> bytes:
        return max(self.blobs.values(), key=len)


class Handler(BaseHTTPRequestHandler):
    server: FaultyRegistry
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.server.requests.append((f"POST {self.path}", {key: values[0] for key, values in form.items()}))
        self.reply(200, json.dumps({"access_token": self.server.token}).encode())

    def do_GET(self) -> None:
        server, path = self.server, urlsplit(self.path).path
        server.requests.append((self.path, dict(self.headers)))
        if server.always is not None and server.always(self):
            return
        if path == "/token":
            self._token()
        elif server.token is not None and self.headers.get("Authorization") != f"Bearer {server.token}":
            challenge = f'Bearer realm="http://{server.host}/token",service="test",scope="repository:a/b:pull"'
            self.reply(401, b"{}", {"WWW-Authenticate": challenge})
        elif path == "/v2/a/b/manifests/latest":
            self.reply(200, server.manifest, {"Content-Type": server.media_type})
        elif (digest := path.removeprefix("/v2/a/b/blobs/")) in server.blobs:
            if not (server.answers and server.answers.pop(0)(self)):
                self.blob(server.blobs[digest])
        else:
            self.reply(404, b'{"errors": []}')

    def blob(self, data: bytes, *, cut: int | None = None) -> None:
        """A blob from where it was asked for; only ``cut`` bytes of it before the connection breaks."""
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(found.group(1)) if found and self.server.ranges else 0
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        self.wfile.write(data[start:] if cut is None else data[start : start + cut])
        self.close_connection = cut is not None

    def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _token(self) -> None:
        user = self.server.user
        if user is not None:
            wanted = base64.b64encode(":".join(user).encode()).decode()
            if self.headers.get("Authorization") != f"Basic {wanted}":
                self.reply(401, b"{}")
                return
        self.reply(200, json.dumps({"token": self.server.token}).encode())


def status(code: int, **headers: str) -> Answer:
    """Answer with a status alone."""

    def answer(handler: Handler) -> bool:
        handler.reply(code, b"{}", {name.replace("_", "-"): value for name, value in headers.items()})
        return True

    return answer


def cut(size: int) -> Answer:
    """Break the connection after so many bytes."""

    def answer(handler: Handler) -> bool:
        handler.blob(handler.server.blobs[handler.path.rpartition("/")[2]], cut=size)
        return True

    return answer


def altered(handler: Handler) -> bool:
    """Send something else of the same length."""
    data = handler.server.blobs[handler.path.rpartition("/")[2]]
    handler.blob(bytes(byte ^ 1 for byte in data))
    return True


def passed(_handler: Handler) -> bool:
    """Answer as usual."""
    return False


@contextmanager
def faulty_registry(image: MadeImage) -> Iterator[FaultyRegistry]:
    with FaultyRegistry(image) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
