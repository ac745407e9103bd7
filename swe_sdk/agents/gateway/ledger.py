"""The capture ledger: what was asked of the model and what it answered, one row a delivered call."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, Protocol

from pydantic import Field

from swe_sdk.model.ids import safe_name
from swe_sdk.model.record import Record

CallEnd = Literal["delivered", "client_gone", "endpoint_broke", "endpoint_silent", "too_large", "unrecorded"]
"""How a response that had begun to be delivered ended: whole, or cut off because of a side, its size or the ledger."""


class ModelCall(Record):
    """One call whose response was delivered, whole or in part. Calls that were not are nowhere in the ledger."""

    call_id: str
    rollout_id: str
    attempt: int = Field(ge=1)
    n: int = Field(ge=1)
    """Counts the calls of the attempt, in the order in which they were delivered."""
    route: str
    """Such as ``/chat/completions``."""
    model: str
    is_stream: bool
    end: CallEnd
    status: int
    """Of HTTP, as the agent got it."""
    error: str = ""
    """Type or code of the error, in a response that is one."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    """None where the endpoint did not tell."""
    tries: int = Field(default=1, ge=1)
    """Connections tried until one was made."""
    started_at: float
    """Unix seconds at which the request had come."""
    seconds: float = Field(ge=0)
    """From then to the end of the response, without ``held_s``."""
    held_s: float = Field(default=0.0, ge=0)
    """How long it was held for a checkpoint."""
    queued_s: float = Field(default=0.0, ge=0)
    """How long it waited for its turn, within ``seconds``."""
    first_byte_s: float = Field(default=0.0, ge=0)
    """From the request's leaving for the endpoint to the first byte of its body."""
    largest_gap_s: float = Field(default=0.0, ge=0)
    """The longest silence between two pieces of the body."""
    pieces: int = Field(default=0, ge=0)
    """Of the body, as they came."""
    request_bytes: int = Field(default=0, ge=0)
    response_bytes: int = Field(default=0, ge=0)
    unrecorded_bytes: int = Field(default=0, ge=0)
    """Of both bodies, dropped because the attempt's bodies had come to ``recorded_bytes``."""


class Capture(Protocol):
    """Takes one call. Its methods are called one after the other, in worker threads; an error cuts the call off."""

    def request(self, data: bytes) -> None:
        """The body of the request, in one piece; first."""

    def response(self, data: bytes) -> None:
        """The next part of the response's body, as the agent gets it."""

    def finish(self, call: ModelCall) -> None:
        """The call has ended; its row is kept when this returns. Last."""


class Ledger(Protocol):
    """Where calls go: a run's store, or a folder."""

    def begin(self, rollout_id: str, attempt: int, call_id: str) -> Capture:
        """Called when a response begins to be delivered, in a worker thread."""


class FolderLedger:
    """A ledger in a folder: rows in ``calls.jsonl``, bodies in a file each below ``bodies``."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        (self.folder / "bodies").mkdir(parents=True, exist_ok=True)

    def begin(self, rollout_id: str, attempt: int, call_id: str) -> Capture:
        """The files of one call."""
        return _FolderCapture(self, safe_name(f"{rollout_id}.{attempt}.{call_id}"))

    def add(self, call: ModelCall) -> None:
        """Append a row, in one write."""
        line = call.model_dump_json().encode() + b"\n"
        descriptor = os.open(self.folder / "calls.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    @property
    def calls(self) -> list[ModelCall]:
        """All rows."""
        rows = self.folder / "calls.jsonl"
        return [ModelCall.model_validate_json(line) for line in rows.read_bytes().splitlines()] if rows.exists() else []

    def body(self, call: ModelCall, part: Literal["request", "response"]) -> Path:
        """The file with a body of ``call``."""
        return self.folder / "bodies" / f"{safe_name(f'{call.rollout_id}.{call.attempt}.{call.call_id}')}.{part}"


class _FolderCapture:
    def __init__(self, ledger: FolderLedger, name: str) -> None:
        self._ledger = ledger
        self._stem = ledger.folder / "bodies" / name

    def request(self, data: bytes) -> None:
        self._append("request", data)

    def response(self, data: bytes) -> None:
        self._append("response", data)

    def finish(self, call: ModelCall) -> None:
        self._ledger.add(call)

    def _append(self, part: str, data: bytes) -> None:
        with self._stem.with_name(f"{self._stem.name}.{part}").open("ab") as file:
            file.write(data)
