"""What one attempt at a grade has done so far: its stage, its times, its evidence."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from swe_sdk.model.outcome import TestReport
from swe_sdk.model.policy import Stage


@dataclass
class Trace:
    """``stage`` is where the attempt is, or where it failed; the rest becomes fields of the Outcome."""

    stage: Stage = "admission"
    timings_s: dict[str, float] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    applied: bool | None = None
    rung: str | None = None
    runner_files: tuple[bytes, ...] = ()
    """Files that the patch has changed and that decide how tests run."""
    tests: TestReport | None = None
    """Statuses that were read although the attempt failed."""
    started: float = field(default_factory=time.monotonic)

    @contextmanager
    def step(self, timing: str, stage: Stage | None = None) -> Iterator[None]:
        """Enter a stage and time it as ``timing``. The stage stays after an exception, so that it can be blamed."""
        if stage is not None:
            self.stage = stage
        start = time.monotonic()
        try:
            yield
        finally:
            self.timings_s[timing] = self.timings_s.get(timing, 0.0) + time.monotonic() - start

    def flag(self, name: str) -> None:
        """Add a flag once."""
        if name not in self.flags:
            self.flags.append(name)

    def times(self) -> dict[str, float]:
        """All timings and their ``total``, in seconds to the tenth of a millisecond."""
        return {k: round(v, 4) for k, v in {**self.timings_s, "total": time.monotonic() - self.started}.items()}
