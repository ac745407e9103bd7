"""Grading straight into a run: the outcome of an attempt becomes an event, its files become artifacts."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.store.atomic import disk_full_is_typed
from swe_sdk.store.events import ArtifactRole, OutcomeReached
from swe_sdk.store.results import save_files
from swe_sdk.store.writer import RunWriter

_ROLES: dict[str, ArtifactRole] = {"log": "log", "patch": "patch", "outcome": "outcome"}


class AttemptSink:
    """Where the grades of one attempt go; implements :class:`swe_sdk.grading.sink.OutcomeSink`.

    The artifacts are called ``verify-<n>/test.log``, ``.../patch.diff`` and ``.../outcome.json``; ``n`` counts the
    tries of the grade.
    """

    def __init__(self, writer: RunWriter, rollout_id: str, attempt: int) -> None:
        self._writer, self._rollout_id, self._attempt = writer, rollout_id, attempt
        self.path = writer.folder(rollout_id, attempt)

    def folder(self, instance_id: str, key: str) -> Path:
        """A new, empty folder for one try."""
        with disk_full_is_typed(self.path):
            for number in count(1):
                folder = self.path / f"verify-{number}"
                try:
                    folder.mkdir()
                except FileExistsError:
                    continue
                return folder
        raise AssertionError("count() has no end")

    def save(self, folder: Path, patch: Patch, outcome: Outcome) -> Outcome:
        """Keep patch and outcome beside the log, and record all three.

        A log of a megabyte and more is compressed: ``artifacts["log"]`` then ends in ``.gz``.
        """
        log = folder / "test.log"
        if log.exists():
            log = self._adopt(log, "log")
        saved = save_files(folder, patch, outcome, log)
        for label in ("patch", "outcome"):
            self._adopt(Path(saved.artifacts[label]), _ROLES[label])
        return saved

    def append(self, outcome: Outcome) -> None:
        """The outcome of the attempt; durable when this returns."""
        self._writer.append(OutcomeReached(rollout_id=self._rollout_id, attempt=self._attempt, outcome=outcome))

    def _adopt(self, path: Path, role: ArtifactRole) -> Path:
        name = f"{path.parent.name}/{path.name}"
        record = self._writer.adopt(path, name=name, rollout_id=self._rollout_id, attempt=self._attempt, role=role)
        return path if record.encoding == "identity" else path.with_name(f"{path.name}.gz")
