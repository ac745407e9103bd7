"""What is said about a lent sandbox between who has borrowed it and its owner: orders, lines of a stream, errors."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from swe_sdk import errors
from swe_sdk.errors import SweError
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.record import Record
from swe_sdk.sandbox.contract import DEFAULT_OUTPUT_BYTES, Stream
from swe_sdk.server.wire import ErrorAnswer

LOANS = "/ng-sandbox/v1"
"""Below it and the id of a session: ``exec``, ``files``, ``status``, ``listen``."""
MOST_OUTPUT_BYTES = 64 << 20

ERRORS: Mapping[str, type[SweError]] = {
    "sandbox_out_of_memory": errors.SandboxOutOfMemory,
    "sandbox_lost": errors.SandboxLost,
    "sandbox_closed": errors.SandboxClosed,
    "transfer_failed": errors.TransferFailed,
    "no_space": errors.NoSpace,
    "sandbox_error": errors.SandboxError,
    "capability_missing": errors.CapabilityMissing,
    "invalid_request": errors.InputError,
}
"""What may go wrong in a lent sandbox, as it is called on the wire; most special first."""
LOST = frozenset({"session_lost", "worker_lost"})
"""Of a server with several workers, where the one that had the sandbox is gone."""
_OVER = frozenset({"unauthorized", "stale_attempt", "checkpoint_conflict", "checkpoint_error"})
"""Of a token that is refused, or of a session that is gone."""


class ExecOrder(Record):
    """A command, as :meth:`swe_sdk.sandbox.contract.LentBox.exec` takes it."""

    command: str | tuple[str, ...]
    cwd: str | None = None
    env: dict[str, str] | None = None
    user: str | None = None
    stdin: bytes | None = None
    timeout_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    output_bytes: int = Field(default=DEFAULT_OUTPUT_BYTES, ge=0, le=MOST_OUTPUT_BYTES)
    merge_stderr: bool = False
    stream: bool = False
    """Whether output is told as it comes."""


class LoanError(Record):
    """An error of :data:`ERRORS`."""

    code: str
    detail: str
    remedy: str = ""

    @classmethod
    def of(cls, error: SweError) -> LoanError:
        """An error as it is told."""
        code = next((code for code, kind in ERRORS.items() if isinstance(error, kind)), "sandbox_error")
        return cls(code=code, detail=error.message, remedy=error.remedy)

    def error(self) -> SweError:
        """The error that was told."""
        return ERRORS.get(self.code, errors.SandboxError)(self.detail, remedy=self.remedy)

    def answer(self) -> ErrorAnswer:
        """As an answer that is no stream."""
        detail = f"{self.detail} ({self.remedy})" if self.remedy else self.detail
        return ErrorAnswer(422 if self.code == "invalid_request" else 409, self.code, detail)


class ExecLine(Record):
    """One line of the answer to an :class:`ExecOrder`: output, or at last the result or an error."""

    stream: Stream | None = None
    data: bytes = b""
    result: ExecResult | None = None
    error: LoanError | None = None


class ListenOrder(Record):
    """Listen in the sandbox, and pass its connections on to a port of whoever asks."""

    port: int = Field(ge=0, lt=1 << 16)
    """0 = any free one."""
    to_port: int = Field(ge=1, lt=1 << 16)


class ListenReply(Record):
    """The line that says where the listener is, in the sandbox; it is there as long as the answer goes on."""

    port: int


def told_error(code: str, detail: str) -> SweError:
    """The error of an answer of 400 and above: one of :data:`ERRORS`, or a ``SandboxClosed`` where the loan is over."""
    if code in _OVER:
        return errors.SandboxClosed(f"the loan is over: {detail}")
    if code in LOST:
        return errors.SandboxLost(f"the worker that has lent the sandbox is gone: {detail}")
    return ERRORS.get(code, errors.SandboxError)(detail)


def line_of(line: Record) -> bytes:
    """As one line of ASCII JSON."""
    return line.model_dump_json(exclude_defaults=True, ensure_ascii=True).encode() + b"\n"
