"""What came of one command in a sandbox."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from typing import Any, Literal

from swe_sdk.errors import CommandFailed
from swe_sdk.model.record import Record
from swe_sdk.shown import Shown

ExecStatus = Literal["exited", "timeout", "oom", "lost"]


class ExecResult(Shown, Record):
    """Status, output and time of one command. What the command did is data: nothing here is an exception.

    ``status`` is decided from facts outside the program: it *exited* by itself, was killed at its *timeout*, was killed
    because memory ran out (*oom*), or its sandbox was *lost* with it. ``exit_code`` is None unless it exited; minus N
    says that signal N ended it. Output beyond the limit is cut from the middle, and counted.
    """

    status: ExecStatus
    exit_code: int | None = None
    stdout_bytes: bytes = b""
    stderr_bytes: bytes = b""
    stdout_dropped_bytes: int = 0
    stderr_dropped_bytes: int = 0
    duration_s: float = 0.0
    output_file: str | None = None
    """Where in the sandbox the whole output is, if it was asked for and could be written."""
    over_limit: Literal["disk_mib"] | None = None
    """Which limit of its sandbox it was killed for, where ``status`` does not say so."""

    @property
    def ok(self) -> bool:
        """Whether it exited with code 0."""
        return self.status == "exited" and self.exit_code == 0

    @property
    def stdout(self) -> str:
        """Standard output as UTF-8, undecodable bytes replaced."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """Standard error as UTF-8, undecodable bytes replaced."""
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def truncated(self) -> bool:
        """Whether output was cut."""
        return bool(self.stdout_dropped_bytes or self.stderr_dropped_bytes)

    @property
    def summary(self) -> str:
        """How it ended, in a few words."""
        if self.status == "timeout":
            return f"timed out after {self.duration_s:.1f} s"
        if self.status == "oom":
            return "ran out of memory"
        if self.status == "lost":
            return "was lost with its sandbox"
        if self.over_limit == "disk_mib":
            return "was killed: its sandbox held more than its disk limit"
        if self.exit_code is not None and self.exit_code < 0:
            return f"was ended by {_signal_name(-self.exit_code)}"
        return f"exited with code {self.exit_code}"

    def check(self) -> ExecResult:
        """Itself if the command exited with code 0, else :class:`~swe_sdk.errors.CommandFailed`."""
        if not self.ok:
            end = (self.stderr or self.stdout).strip()[-2000:]
            raise CommandFailed(f"the command {self.summary}: {end}")
        return self

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        yield None, self.summary
        yield "stdout", _shortened(self.stdout)
        yield "stderr", _shortened(self.stderr)
        yield "duration_s", round(self.duration_s, 3)


def _shortened(text: str) -> str:
    return text if len(text) <= 400 else f"{text[:200]} ... {text[-200:]}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
