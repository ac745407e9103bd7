"""What can be taken away: tables as CSV, files of rollouts as they are. Both are sent bit by bit."""

from __future__ import annotations

import csv
import io
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any
from urllib.parse import quote

from anyio import to_thread
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError, RequestHandler

from swe_sdk.dashboard.access import Access
from swe_sdk.dashboard.hub import Hub
from swe_sdk.dashboard.state import State
from swe_sdk.dashboard.view import CsvRows
from swe_sdk.dashboard.views import views
from swe_sdk.errors import SweError
from swe_sdk.store.rows import ArtifactRow

_LOG = logging.getLogger(__name__)
_ROWS = 2000
_BYTES = 1 << 20
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def patterns(hub: Hub, access: Access) -> list[tuple[str, type[RequestHandler], dict[str, Any]]]:
    """The routes, for the server."""
    given = {"hub": hub, "access": access}
    return [(r"/export/([a-z_-]+)\.csv", _Csv, given), (r"/files/raw", _Raw, given)]


def file_query(artifact: ArtifactRow) -> str:
    """The part of the URL of a file's download that names it."""
    names = {"run": artifact.run, "rollout": artifact.rollout_id, "attempt": artifact.attempt, "name": artifact.name}
    return "&".join(f"{key}={quote(str(value), safe='')}" for key, value in names.items() if value is not None)


class _Download(RequestHandler):
    def initialize(self, hub: Hub, access: Access) -> None:
        """Called by Tornado."""
        self.hub, self.access = hub, access

    def prepare(self) -> None:
        """Nothing for whoever has not shown the token."""
        if not self.access.allows(self):
            raise HTTPError(403)

    def offer(self, name: str, kind: str) -> None:
        """To be saved, and never shown as a page of this server."""
        self.set_header("Content-Type", kind)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Content-Security-Policy", "sandbox")
        self.set_header("Content-Disposition", f"attachment; filename*=UTF-8''{quote(name, safe='')}")

    async def send(self, chunks: Iterator[bytes]) -> None:
        """Each chunk is made in a thread once the one before is on its way. What cannot be read is not found."""
        try:
            while chunk := await to_thread.run_sync(next, chunks, b""):
                self.write(chunk)
                await self.flush()
        except StreamClosedError:  # they have seen enough
            return
        except (SweError, OSError, sqlite3.Error) as error:
            if not self._headers_written:
                raise HTTPError(404, reason="Not there any more") from error
            _LOG.warning("a download of %s was cut off: %s", self.request.path, error)
            self.detach().close()  # an end in order would make it look whole


class _Csv(_Download):
    async def get(self, name: str) -> None:
        """A table, with the filters of the query."""
        exports: dict[str, CsvRows] = {name: rows for view in views().values() for name, rows in view.exports.items()}
        if name not in exports:
            raise HTTPError(404)
        rows = exports[name](self.hub.context(State.parse(self.request.query)))
        self.offer(f"{name}.csv", "text/csv; charset=utf-8")
        await self.send(_csv_chunks(rows))


class _Raw(_Download):
    async def get(self) -> None:
        """A file, unpacked."""
        artifact = await to_thread.run_sync(self._find)
        self.offer(artifact.name.replace("/", "_"), "application/octet-stream")
        await self.send(self._chunks(artifact))

    def _find(self) -> ArtifactRow:
        run, rollout = self.get_query_argument("run"), self.get_query_argument("rollout", None)
        attempt, name = self.get_query_argument("attempt", ""), self.get_query_argument("name")
        try:
            found = self.hub.index.artifacts(rollout, run=run)
        except SweError as error:
            raise HTTPError(404) from error
        for row in found:
            if row.name == name and str(row.attempt or "") == attempt:
                return row
        raise HTTPError(404)

    def _chunks(self, artifact: ArtifactRow) -> Iterator[bytes]:
        with self.hub.index.open_artifact(artifact) as file:
            offset = 0
            while data := file.read_window(offset, _BYTES):
                yield data
                offset += len(data)


def _csv_chunks(rows: Iterator[Sequence[object]]) -> Iterator[bytes]:
    while some := list(islice(rows, _ROWS)):
        text = io.StringIO()
        csv.writer(text).writerows([[_cell(value) for value in row] for row in some])
        yield text.getvalue().encode("utf-8", "replace")


def _cell(value: object) -> object:
    """Texts that a spreadsheet would take for formulas get a quote in front: agents may have written them."""
    if isinstance(value, str) and value.startswith(_FORMULAS):
        return f"'{value}"
    return value
