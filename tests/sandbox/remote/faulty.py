"""Servers that do wrong, on loopback."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Faulty:
    """One that runs: where, and what it was asked."""

    domain: str
    asked: list[str] = field(default_factory=list)
    """``METHOD path`` of each request."""
    headers: list[dict[str, str]] = field(default_factory=list)
    """Of each request, names in lower case."""

    @property
    def url(self) -> str:
        return f"http://{self.domain}"


class Request(BaseHTTPRequestHandler):
    """One request to such a server, and ways to answer it."""

    faulty: Faulty
    script: Callable[[Request], None]

    def serve(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.faulty.asked.append(f"{self.command} {urlsplit(self.path).path}")
        self.faulty.headers.append({name.lower(): value for name, value in self.headers.items()})
        try:
            type(self).script(self)
        except OSError:
            pass  # whoever asked has hung up

    do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = do_CONNECT = serve

    def log_message(self, *_: object) -> None: ...

    @property
    def query(self) -> dict[str, str]:
        return {name: values[-1] for name, values in parse_qs(urlsplit(self.path).query).items()}

    def tell(self, body: Any, status: int = 200, **headers: str) -> None:
        """JSON, or bytes as they are."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        told = {"Content-Type": "application/json", "Content-Length": str(len(data))}
        self.begin(status, **{**told, **{name.replace("_", "-"): value for name, value in headers.items()}})
        self.wfile.write(data)

    def begin(self, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def go_on(self, piece: bytes, rest_s: float) -> None:
        """An answer without an end."""
        self.begin()
        for _ in count():
            self.wfile.write(piece)
            time.sleep(rest_s)


@contextmanager
def faulty(script: Callable[[Request], None]) -> Iterator[Faulty]:
    """A server that answers each request so."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Request) as server:
        told = Faulty(f"127.0.0.1:{server.server_address[1]}")
        server.RequestHandlerClass = type("Scripted", (Request,), {"faulty": told, "script": staticmethod(script)})
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield told
        finally:
            server.shutdown()
            thread.join()
