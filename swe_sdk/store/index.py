"""Reading runs: everything that lists, shows, plots or exports them asks a :class:`RunIndex`."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from swe_sdk.errors import InputError, UnknownRollout, UnknownRun
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.store import budget_sums, details, mask_sums, plotted, retention, summaries
from swe_sdk.store.catalog import Catalog
from swe_sdk.store.changes import changes_since, version
from swe_sdk.store.database import Database
from swe_sdk.store.events import RolloutStage
from swe_sdk.store.filesystem import local_index_folder
from swe_sdk.store.filters import GroupColumn, RolloutFilter, SortColumn, where
from swe_sdk.store.follow import Follower, Told
from swe_sdk.store.frames import SUFFIX
from swe_sdk.store.health import index_status
from swe_sdk.store.index_files import index_file
from swe_sdk.store.outlines import RolloutOutline, outlines
from swe_sdk.store.pages import SELECT_ROLLOUTS, count_rollouts, neighbours, page_of_rollouts, rollout_row
from swe_sdk.store.rows import (
    ArtifactRow,
    AttemptRow,
    BudgetRow,
    BudgetTotals,
    Changes,
    CheckpointPhaseRow,
    CheckpointRolloutRow,
    CheckpointRow,
    GroupRow,
    IndexStatus,
    MaskRow,
    ModelCallRow,
    Page,
    RolloutRow,
    RunRow,
    SnapshotRow,
    StageRow,
    StageSeconds,
    StepRow,
    VerdictRow,
)
from swe_sdk.store.run_rows import run_rows
from swe_sdk.store.sum_rows import BudgetBin, Facet, MaskCell, MaskTimes, RunBudget, SnapshotTotals, UnderWay
from swe_sdk.store.summaries import OneOf
from swe_sdk.store.windows import WindowedFile

ALL = RolloutFilter()


def open_index(path: Path | str, *, index_dir: Path | str | None = None, told: Told | None = None) -> RunIndex:
    """Index a run directory, or all run directories in a directory, and open it for queries.

    The index is a file on a local disk (``index_dir``; default: ``paths.index_dir()``), shared by all processes that
    look at ``path``. It is made when it is missing, and can be deleted at any time; the run directory is only read.
    The first time takes a second for each 100,000 events or so; ``told`` hears how far it is, in bytes of journals, of
    all that there are. Raises ``InputError`` where there is no such directory.
    """
    return RunIndex(Path(path), Path(index_dir) if index_dir is not None else None, told)


class RunIndex:
    """What is known of some runs, as of the last :meth:`refresh`. A context manager; any thread may use it.

    Writers are never locked or slowed. ``run`` may be left out wherever there is only one. Methods take milliseconds,
    and raise ``UnknownRun`` and ``UnknownRollout`` for what is not there, ``RunClosed`` after :meth:`close`.
    """

    def __init__(self, path: Path, index_dir: Path | None = None, told: Told | None = None) -> None:
        self.path = path.absolute()
        catalog = Catalog(self.path)
        file = index_file(self.path, local_index_folder() if index_dir is None else index_dir)
        self._db = Database(file, about=self.path)
        self._follower = Follower(self._db, catalog)
        self._journals = details.Journals(self._db)
        self._follower.refresh(told)

    def __repr__(self) -> str:
        return f"RunIndex({str(self.path)!r})"

    # -- keeping up --------------------------------------------------------------------------------------------------

    def refresh(self) -> int:
        """Take in all that is on the disk by now; returns how many lines were new. Less than a millisecond if none."""
        return self._follower.refresh()

    def changes(self, cursor: str | None = None, *, limit: int = 500) -> Changes:
        """Refresh, and tell what changed since a cursor (None: everything there is), at most ``limit`` rollouts."""
        self.refresh()
        return changes_since(self._db, cursor, limit)

    def version(self) -> str:
        """Refresh, and give a text that is the same as before where nothing has changed since, whoever lives included.

        Less than a millisecond; what it says is for comparing alone.
        """
        self.refresh()
        return version(self._db)

    def status(self) -> IndexStatus:
        """How well the index follows, what could not be read, and what the file system promises."""
        return index_status(self._db, self.path)

    # -- runs --------------------------------------------------------------------------------------------------------

    def runs(self) -> list[RunRow]:
        """All runs, the newest first."""
        return run_rows(self._db)

    def run(self, run: str | None = None) -> RunRow:
        """One run."""
        return run_rows(self._db, self._rn(run))[0]

    def config(self, run: str | None = None) -> dict[str, object]:
        """The resolved configuration that the run was last started with."""
        return details.run_config(self._db, self._journals, self._rn(run))

    # -- many rollouts -----------------------------------------------------------------------------------------------

    def rollouts(
        self,
        filter: RolloutFilter = ALL,
        *,
        sort: SortColumn = "queued_at",
        descending: bool = False,
        offset: int = 0,
        limit: int = 50,
        cursor: str | None = None,
        total: bool = True,
    ) -> Page[RolloutRow]:
        """A page of rollouts: from ``offset`` on, or after ``page.cursor`` of the page before (same sort and filter).

        Empty values count as less than all others. Raises ``InputError`` for a cursor of another sort.
        """
        return page_of_rollouts(
            self._db, filter, sort=sort, descending=descending, offset=offset, limit=limit, cursor=cursor, total=total
        )

    def rollout(self, rollout_id: str, *, run: str | None = None) -> RolloutRow:
        """One rollout."""
        row = self._db.row(f"{SELECT_ROLLOUTS} WHERE r.rid = ?", (self._rid(rollout_id, run),))
        assert row is not None
        return rollout_row(row)

    def neighbours(
        self,
        rollout_id: str,
        filter: RolloutFilter = ALL,
        *,
        run: str | None = None,
        sort: SortColumn = "queued_at",
        descending: bool = False,
    ) -> tuple[RolloutRow | None, RolloutRow | None]:
        """The rollouts right before and after one in the pages of a filter and a sort; None at their ends."""
        return neighbours(self._db, filter, self._rid(rollout_id, run), sort=sort, descending=descending)

    def count(self, filter: RolloutFilter = ALL) -> int:
        """How many rollouts there are."""
        return count_rollouts(self._db, where(filter))

    def groups(self, by: GroupColumn, filter: RolloutFilter = ALL, *, limit: int = 1000) -> list[GroupRow]:
        """Counts, and mean reward over the graded, for each value of a column; the largest group first."""
        return summaries.groups(self._db, by, filter, limit)

    def facets(self, filter: RolloutFilter = ALL) -> list[Facet]:
        """Counts of all combinations of what rollouts are filtered by: those of any of its columns are sums of them."""
        return summaries.facets(self._db, filter)

    def budget_totals(self, filter: RolloutFilter = ALL) -> BudgetTotals:
        """Sums of all budgets."""
        return summaries.budget_totals(self._db, filter)

    def stage_seconds(self, filter: RolloutFilter = ALL) -> list[StageSeconds]:
        """Where the time went."""
        return summaries.stage_seconds(self._db, filter)

    def masks(
        self,
        filter: RolloutFilter = ALL,
        *,
        kind: OneOf = None,
        stage: OneOf = None,
        final: bool | None = None,
        retryable: bool | None = None,
        offset: int = 0,
        limit: int = 50,
        total: bool = True,
    ) -> Page[MaskRow]:
        """Masked attempts, the newest first; those that were tried again as well, unless only ``final`` ones count."""
        return summaries.masks(
            self._db,
            filter,
            kind=kind,
            stage=stage,
            final=final,
            retryable=retryable,
            offset=offset,
            limit=limit,
            total=total,
        )

    def mask_cells(self, filter: RolloutFilter = ALL) -> list[MaskCell]:
        """Masked attempts counted by all that they may have in common; the largest cell first."""
        return mask_sums.mask_cells(self._db, filter)

    def mask_times(
        self, filter: RolloutFilter = ALL, *, kind: OneOf = None, stage: OneOf = None, buckets: int = 60
    ) -> MaskTimes | None:
        """Masked attempts over time; None where there are none."""
        return mask_sums.mask_times(self._db, filter, kind, stage, buckets)

    def budget_bins(self, filter: RolloutFilter = ALL, *, bins: int = 21) -> list[BudgetBin]:
        """Rollouts by the share of their budget that is spent; the last bin has spent all of it."""
        return budget_sums.budget_bins(self._db, filter, bins)

    def run_budgets(self, filter: RolloutFilter = ALL) -> list[RunBudget]:
        """Sums of budgets for each run, the newest run first."""
        return budget_sums.run_budgets(self._db, filter)

    def under_way(self, filter: RolloutFilter = ALL, *, now: float, limit: int = 50) -> list[UnderWay]:
        """Rollouts that are not over, with what is left of their budget at ``now``; the least first."""
        return budget_sums.under_way(self._db, filter, now, limit)

    # -- whole columns, for pictures ---------------------------------------------------------------------------------

    def task_counts(self, filter: RolloutFilter = ALL) -> list[plotted.TaskCount]:
        """How the finished rollouts of each task ended."""
        return plotted.task_counts(self._db, filter)

    def mask_counts(self, filter: RolloutFilter = ALL) -> list[plotted.MaskCount]:
        """Masked rollouts by kind and stage of their masks, the largest number first."""
        return plotted.mask_counts(self._db, filter)

    def retried_masks(self, filter: RolloutFilter = ALL) -> int:
        """Attempts that were masked and tried again."""
        return plotted.retried_masks(self._db, filter)

    def outlines(self, filter: RolloutFilter = ALL) -> list[RolloutOutline]:
        """All of them, in the few columns that metrics need."""
        return outlines(self._db, filter)

    def budget_points(self, filter: RolloutFilter = ALL) -> list[plotted.BudgetPoint]:
        """The budgets of all rollouts that have begun, the one that has spent most first."""
        return plotted.budget_points(self._db, filter)

    def stage_points(self, filter: RolloutFilter = ALL) -> dict[RolloutStage, list[float]]:
        """Seconds of each stage that is over, of all attempts, by stage."""
        return plotted.stage_points(self._db, filter)

    def stage_spans(self, filter: RolloutFilter = ALL) -> list[plotted.StageSpan]:
        """When each attempt was in which stage."""
        return plotted.stage_spans(self._db, filter)

    # -- one rollout -------------------------------------------------------------------------------------------------

    def attempts(self, rollout_id: str, *, run: str | None = None) -> list[AttemptRow]:
        """Its attempts, the first one first."""
        return details.attempts(self._db, self._rid(rollout_id, run))

    def stages(self, rollout_id: str, *, run: str | None = None, attempt: int | None = None) -> list[StageRow]:
        """The stages of one attempt, or of all."""
        return details.stages(self._db, self._rid(rollout_id, run), attempt)

    def verdicts(self, rollout_id: str, *, run: str | None = None, attempt: int | None = None) -> list[VerdictRow]:
        """The tests to be looked at; all of them are in :meth:`outcome`."""
        return details.verdicts(self._db, self._rid(rollout_id, run), attempt)

    def budgets(self, rollout_id: str, *, run: str | None = None) -> list[BudgetRow]:
        """What each attempt had spent in the end."""
        return details.budgets(self._db, self._rid(rollout_id, run))

    def steps(
        self, rollout_id: str, *, run: str | None = None, attempt: int | None = None, offset: int = 0, limit: int = 100
    ) -> Page[StepRow]:
        """Steps of one attempt, or of all, in their order."""
        rid = self._rid(rollout_id, run)
        return details.steps(self._db, self._journals, rid, attempt, offset, limit)

    def model_calls(
        self, rollout_id: str, *, run: str | None = None, attempt: int | None = None, offset: int = 0, limit: int = 100
    ) -> Page[ModelCallRow]:
        """Model calls of one attempt, or of all, in the order in which they ended."""
        rid = self._rid(rollout_id, run)
        return details.model_calls(self._db, self._journals, rid, attempt, offset, limit)

    def outcome(self, rollout_id: str, *, run: str | None = None, attempt: int | None = None) -> Outcome | None:
        """The whole outcome of an attempt (default: the newest one that has one); None where there is none."""
        return details.outcome(self._db, self._journals, self._rid(rollout_id, run), attempt)

    # -- files -------------------------------------------------------------------------------------------------------

    def artifacts(
        self, rollout_id: str | None = None, *, run: str | None = None, attempt: int | None = None
    ) -> list[ArtifactRow]:
        """Files of a rollout; without one, of the run itself."""
        rid = 0 if rollout_id is None else self._rid(rollout_id, run)
        return details.artifacts(self._db, self._rn(run, rid), rid, attempt)

    def open_artifact(self, artifact: ArtifactRow) -> WindowedFile:
        """A file, to be read in windows. ``InputError`` where it is not there any more, or not below its run."""
        run_dir = Path(str(self._db.value("SELECT path FROM runs WHERE run = ?", (artifact.run,))))
        path = run_dir / artifact.path
        places = [os.path.realpath(place) for place in (path, path.with_name(path.name + SUFFIX))]
        if not all(Path(place).is_relative_to(run_dir.resolve()) for place in places):
            raise InputError(f"the artifact {artifact.path!r} is not below its run directory")
        return WindowedFile(path)

    def patch(self, rollout_id: str, *, run: str | None = None, attempt: int | None = None) -> Patch | None:
        """The newest patch among the files of an attempt (default: of the newest attempt that has one)."""
        found = [row for row in self.artifacts(rollout_id, run=run, attempt=attempt) if row.role == "patch"]
        if not found:
            return None
        with self.open_artifact(max(found, key=lambda row: row.attempt or 0)) as file:
            return Patch(data=file.read_window(0, file.size))

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def checkpoints(self, run: str | None = None) -> list[CheckpointRow]:
        """Checkpoints of a run, or of all. What lies on the disk says which are kept, and journals the rest."""
        return retention.checkpoints(self._db, None if run is None else self._rn(run))

    def told_checkpoints(self, run: str | None = None) -> dict[str, str]:
        """What the journals of a run say of the state of each checkpoint, by its id; they may lag behind the disk."""
        return retention.told_checkpoints(self._db, self._rn(run))

    def checkpoint_phases(
        self, checkpoint_id: str | None = None, *, run: str | None = None
    ) -> list[CheckpointPhaseRow]:
        """What a checkpoint's operations (or those of all) took."""
        return retention.checkpoint_phases(self._db, self._rn(run), checkpoint_id)

    def checkpoint_rollouts(self, checkpoint_id: str, *, run: str | None = None) -> list[CheckpointRolloutRow]:
        """What a checkpoint holds of each rollout, and why of some it holds nothing."""
        return retention.checkpoint_rollouts(self._db, self._rn(run), checkpoint_id)

    def snapshots(self, run: str | None = None) -> list[SnapshotRow]:
        """Snapshots of a run, or of all, and which checkpoints need them."""
        return retention.snapshots(self._db, None if run is None else self._rn(run))

    def restores(self, run: str | None = None) -> dict[str, int]:
        """How many attempts of a run went on from each checkpoint, by its id."""
        return retention.restores(self._db, self._rn(run))

    def snapshot_totals(self) -> list[SnapshotTotals]:
        """Snapshots of each run, counted; runs in trouble first."""
        return retention.snapshot_totals(self._db)

    # -- closing -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the index. A second call does nothing."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _rn(self, run: str | None, rid: int = 0) -> int:
        if rid:
            row = self._db.row("SELECT rn FROM rollouts WHERE rid = ?", (rid,))
            assert row is not None
            return int(row["rn"])
        known = {row["run"]: row["rn"] for row in self._db.rows("SELECT run, rn FROM runs")}
        if run is None and len(known) == 1:
            return int(next(iter(known.values())))
        if run is None or run not in known:
            raise UnknownRun(run or "", known)
        return int(known[run])

    def _rid(self, rollout_id: str, run: str | None) -> int:
        condition = "" if run is None else " AND rn = ?"
        parameters = (rollout_id,) if run is None else (rollout_id, self._rn(run))
        found = self._db.rows(f"SELECT rid FROM rollouts WHERE rollout_id = ?{condition}", parameters)
        if len(found) > 1:
            raise UnknownRun("", [row.run for row in self.runs()])
        if not found:
            raise UnknownRollout(rollout_id, self._near(rollout_id))
        return int(found[0]["rid"])

    def _near(self, rollout_id: str) -> list[str]:
        """Ids of the same instance, or else some of all, for the error to name."""
        instance = rollout_id.rpartition(".")[0] or rollout_id
        sql = "SELECT rollout_id FROM rollouts WHERE instance_id = ? OR instance_id LIKE ? LIMIT 20"
        found = self._db.rows(sql, (instance, f"{instance[:12]}%"))
        return [row["rollout_id"] for row in found or self._db.rows("SELECT rollout_id FROM rollouts LIMIT 5")]
