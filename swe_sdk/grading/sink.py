"""Where outcomes go. The store above implements it; grading knows only this."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch


class OutcomeSink(Protocol):
    """Keeps outcomes and their files. Methods block, and are called from worker threads.

    All of them raise ``NoSpace`` where the disk is full.
    """

    path: Path
    """The directory that holds everything."""

    def folder(self, instance_id: str, key: str) -> Path:
        """A new, empty folder for the files of one grade; ``test.log`` is written there while the tests run."""

    def save(self, folder: Path, patch: Patch, outcome: Outcome) -> Outcome:
        """Keep the patch and the outcome in ``folder``; returns the outcome with its ``artifacts``."""

    def append(self, outcome: Outcome) -> None:
        """Add it to the list of outcomes; durable when this returns."""
