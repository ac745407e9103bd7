"""A stand-in for envd, E2B's program in every sandbox: process 1 of a container, at a unix socket.

Only the standard library, and only what the e2b SDK 2.63.0 and our client use. Run as ``guest.py SOCKET``; the
sandbox's variables are in ``E2B_STUB_ENV``, its access token is in ``E2B_STUB_TOKEN``.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import signal
import socketserver
import struct
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

import guest_files as files
from guest_processes import Programs

Message = dict[str, Any]
_KEEPALIVE_S = 90.0
_HTTP_OF = {"invalid_argument": 400, "unauthenticated": 401, "not_found": 404, "already_exists": 409, "internal": 500}


class Fault(Exception):
    """What a call answers instead of a result: a code of the Connect protocol, and a text."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Guest(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = False
    programs: Programs
    token: str

    def setup(self) -> None:
        super().setup()
        self.client_address = ("", 0)  # a unix socket has none

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""

    # -- requests ---------------------------------------------------------------------------------------------------

    def do_GET(self) -> None:
        path, query = self._target()
        if path == "/health":
            self._answer(204, b"")
        elif path == "/files" and self._admitted():
            self._guarded(lambda: self._download(query))
        elif path != "/files":
            self._answer_json(404, {"code": 404, "message": "no such route"})

    def do_POST(self) -> None:
        path, query = self._target()
        if path == "/init":
            self._body()
            self._answer(204, b"")
        elif not self._admitted():
            return
        elif path == "/files":
            self._guarded(lambda: self._upload(query))
        elif path in ("/process.Process/Start", "/process.Process/Connect"):
            self._stream(path.endswith("Start"))
        else:
            self._unary(path)

    def _target(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        return parts.path, {name: values[-1] for name, values in parse_qs(parts.query).items()}

    def _admitted(self) -> bool:
        if self.headers.get("X-Access-Token", "") == self.token:
            return True
        self._body()
        self._answer_json(401, {"code": "unauthenticated", "message": "unauthorized access"})
        return False

    def _user(self, query: Message | None = None) -> str:
        scheme, _, value = (self.headers.get("Authorization") or "").partition(" ")
        named = base64.b64decode(value).decode().partition(":")[0] if scheme == "Basic" else ""
        return (query or {}).get("username") or named or "root"

    # -- calls ------------------------------------------------------------------------------------------------------

    def _unary(self, path: str) -> None:
        request = json.loads(self._body() or b"{}")
        call = self._calls().get(path)
        try:
            if call is None:
                raise Fault("unimplemented", f"no such call: {path}")
            self._answer_json(200, call(request))
        except (files.Missing, LookupError) as error:
            self._fail(Fault("not_found", str(error)))
        except files.Exists as error:
            self._fail(Fault("already_exists", str(error)))
        except OSError as error:
            self._fail(Fault("internal", str(error)))
        except Fault as fault:
            self._fail(fault)

    def _fail(self, fault: Fault) -> None:
        self._answer_json(_HTTP_OF.get(fault.code, 500), {"code": fault.code, "message": str(fault)})

    def _calls(self) -> dict[str, Callable[[Message], Message]]:
        user, programs = self._user(), self.programs
        return {
            "/process.Process/List": lambda _request: {"processes": programs.listed()},
            "/process.Process/SendSignal": lambda r: programs.signal(r["process"], _signal(r["signal"])) or {},
            "/process.Process/SendInput": self._send_input,
            "/process.Process/CloseStdin": self._close_input,
            "/filesystem.Filesystem/Stat": lambda r: {"entry": files.entry(files.resolve(r["path"], user))},
            "/filesystem.Filesystem/ListDir": lambda r: {
                "entries": list(files.children(files.resolve(r["path"], user), r.get("depth") or 1))
            },
            "/filesystem.Filesystem/MakeDir": lambda r: {
                "entry": files.make_directory(files.resolve(r["path"], user), user)
            },
            "/filesystem.Filesystem/Move": lambda r: {
                "entry": files.move(files.resolve(r["source"], user), files.resolve(r["destination"], user), user)
            },
            "/filesystem.Filesystem/Remove": lambda r: files.remove(files.resolve(r["path"], user)) or {},
        }

    def _send_input(self, request: Message) -> Message:
        stdin = self.programs.find(request["process"]).popen.stdin
        if stdin is None:
            raise Fault("invalid_argument", "the process has no standard input")
        stdin.write(base64.b64decode(request["input"]["stdin"]))
        stdin.flush()
        return {}

    def _close_input(self, request: Message) -> Message:
        stdin = self.programs.find(request["process"]).popen.stdin
        if stdin is not None:
            stdin.close()
        return {}

    def _stream(self, is_new: bool) -> None:
        _flags, size = struct.unpack("!BI", self.rfile.read(5)) if self.headers.get("Content-Length") else (0, 0)
        body = self.rfile.read(size) if size else self._body()[5:]
        request = json.loads(body)
        self.send_response(200)
        self.send_header("Content-Type", "application/connect+json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        end: Message = {}
        try:
            for event in self._events(request, is_new):
                self._envelope(0, {"event": event})
        except Fault as fault:
            end = {"error": {"code": fault.code, "message": str(fault)}}
        self._envelope(2, end)
        self._chunk(b"")

    def _events(self, request: Message, is_new: bool) -> Iterator[Message]:
        program = self._begun(request) if is_new else self._found(request)
        deadline = time.monotonic() + int(self.headers.get("Connect-Timeout-Ms") or 10**9) / 1000
        ping_s = float(self.headers.get("Keepalive-Ping-Interval") or _KEEPALIVE_S)
        events = program.listen()
        if is_new:
            program.follow()
        event: Message = {}
        while "end" not in event:
            try:
                event = events.get(timeout=max(min(ping_s, deadline - time.monotonic()), 0.0))
            except queue.Empty:
                if time.monotonic() >= deadline:
                    os.kill(program.popen.pid, signal.SIGKILL)
                    raise Fault("deadline_exceeded", "context deadline exceeded") from None
                event = {"keepalive": {}}
            yield event

    def _begun(self, request: Message) -> Any:
        try:
            return self.programs.start(request, self._user())
        except KeyError as error:
            raise Fault("unauthenticated", f"no such user: {error}") from None
        except OSError as error:
            raise Fault("invalid_argument", f"cannot start: {error}") from None

    def _found(self, request: Message) -> Any:
        try:
            return self.programs.find(request["process"])
        except LookupError as error:
            raise Fault("not_found", str(error)) from None

    # -- files ------------------------------------------------------------------------------------------------------

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except files.Missing as error:
            self._answer_json(404, {"code": 404, "message": str(error)})
        except KeyError as error:
            self._answer_json(401, {"code": 401, "message": f"error looking up user {error}"})
        except OSError as error:
            self._answer_json(507 if error.errno == 28 else 500, {"code": 500, "message": str(error)})

    def _download(self, query: Message) -> None:
        path = files.resolve(query["path"], self._user(query))
        found = files.entry(path)
        if path.is_dir():
            self._answer_json(400, {"code": 400, "message": f"path '{path}' is a directory"})
            return
        size, begin = int(found["size"]), _range_begin(self.headers.get("Range"))
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if begin and begin >= size:
                self._answer(416, b"")
                return
            file.seek(begin)
            self.send_response(206 if begin else 200)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(size - begin))
            self.end_headers()
            left = size - begin
            while left and (piece := file.read(min(left, 1 << 20))):
                self.wfile.write(piece)
                left -= len(piece)
            self.close_connection = self.close_connection or bool(left)

    def _upload(self, query: Message) -> None:
        user = self._user(query)
        if (self.headers.get("Content-Type") or "").startswith("multipart/form-data"):
            made = [self._store(name or query["path"], [data], user) for name, data in self._parts(query.get("path"))]
        else:
            made = [self._store(query["path"], self._pieces(), user)]
        self._answer_json(200, made)

    def _store(self, name: str, pieces: Any, user: str) -> Message:
        path = files.resolve(name, user)
        with files.create(path, user) as file:
            for piece in pieces:
                file.write(piece)
        return {"path": str(path), "name": path.name, "type": "file"}

    def _parts(self, only: str | None) -> Iterator[tuple[str, bytes]]:
        boundary = (self.headers.get("Content-Type") or "").partition("boundary=")[2].strip('"').encode()
        for part in self._body().split(b"--" + boundary)[1:-1]:
            head, _, data = part[2:-2].partition(b"\r\n\r\n")
            name = head.partition(b'filename="')[2].partition(b'"')[0].decode()
            yield only or name, data

    # -- bytes ------------------------------------------------------------------------------------------------------

    def _pieces(self) -> Iterator[bytes]:
        if "chunked" in (self.headers.get("Transfer-Encoding") or ""):
            while size := int(self.rfile.readline().split(b";")[0], 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            left = int(self.headers.get("Content-Length") or 0)
            while left:
                piece = self.rfile.read(min(left, 1 << 20))
                if not piece:
                    return
                left -= len(piece)
                yield piece

    def _body(self) -> bytes:
        return b"".join(self._pieces())

    def _answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer_json(self, status: int, body: object) -> None:
        self._answer(status, json.dumps(body).encode())

    def _envelope(self, flags: int, message: Message) -> None:
        body = json.dumps(message).encode()
        self._chunk(struct.pack("!BI", flags, len(body)) + body)

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """At a unix socket, one thread a connection."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A caller that has gone is no news; anything else is seen by ``docker logs``."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _signal(name: str | int) -> int:
    return int(getattr(signal, str(name).removeprefix("SIGNAL_"), name))


def _range_begin(value: str | None) -> int:
    return int((value or "").removeprefix("bytes=").partition("-")[0] or 0)


def main(socket: str) -> None:
    """Serve for ever."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    Guest.programs = Programs(json.loads(os.environ.get("E2B_STUB_ENV", "{}")))
    Guest.token = os.environ["E2B_STUB_TOKEN"]
    with Server(socket, Guest) as server:
        os.chmod(socket, 0o666)
        server.serve_forever(poll_interval=60)


if __name__ == "__main__":
    main(sys.argv[1])
