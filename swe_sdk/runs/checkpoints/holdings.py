"""What the checkpoints of a run hold of each rollout, whoever has saved them; and which of it can be gone on from."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from swe_sdk.checkpoint import catalog, store
from swe_sdk.checkpoint.catalog import BadCheckpoint
from swe_sdk.checkpoint.records import EpisodeRecord, ResourcesSessionRecord
from swe_sdk.checkpoint.snapshots.checkpointer import SandboxState
from swe_sdk.errors import CheckpointError
from swe_sdk.rollouts.bookmark import Bookmark
from swe_sdk.runs.checkpoints.census import WITH_BOX
from swe_sdk.runs.checkpoints.participants import ROLLOUTS
from swe_sdk.store.checkpoints import SANDBOXES, Saved, checkpoints_folder, series_of

Way = Literal["plain", "here", "copy"]
"""How to go on: without any snapshot, from one of this node, or from a copy on shared storage."""


@dataclass(frozen=True)
class Holding:
    """What a checkpoint holds of a rollout."""

    mark: Bookmark
    """Where it goes on, with what is spent of its budget and the id of the checkpoint."""
    saved_at: float
    """Unix seconds."""
    task_digest: str
    state: SandboxState | None
    """Of its sandbox, where that is part of where it stands."""

    @property
    def checkpoint_id(self) -> str:
        """Which one."""
        return self.mark.checkpoint_id or ""

    @property
    def node(self) -> str:
        """Who has the snapshot; empty where it takes none, or anybody has it."""
        return self.state.node if self.state is not None else ""


class Holdings:
    """Those of one run. Checkpoints never change, so each is read once. Methods block."""

    def __init__(self, run_dir: Path) -> None:
        self._directory = checkpoints_folder(run_dir)
        self._known: dict[str, dict[str, Holding]] = {}

    def refresh(self) -> None:
        """See what was completed and dropped since."""
        complete = {one.checkpoint_id: one for one in catalog.listing(self._directory) if one.status == "complete"}
        known = self._known  # another thread may do the same
        self._known = {name: known[name] if name in known else _read(saved) for name, saved in complete.items()}

    def of(self, rollout_id: str) -> list[Holding]:
        """What is held of a rollout, the newest first."""
        found = [held[rollout_id] for held in self._known.values() if rollout_id in held]
        return sorted(found, key=lambda one: (one.mark.attempt, one.saved_at), reverse=True)

    def rollouts(self) -> set[str]:
        """All of which anything is held."""
        return {rollout_id for held in self._known.values() for rollout_id in held}

    def snapshots(self) -> set[str]:
        """The ids of all snapshots that a complete checkpoint needs."""
        held = (one for each in self._known.values() for one in each.values())
        return {one.state.snapshot_id for one in held if one.state is not None}

    def of_finished(self, unfinished: Collection[str]) -> list[str]:
        """Checkpoints of series that hold no rollout which is still to be done: nobody will go on from them."""
        return of_finished(self._known, unfinished)


def of_finished(held: Mapping[str, Collection[str]], unfinished: Collection[str]) -> list[str]:
    """The checkpoints (with the rollouts that each holds) of series that hold nothing unfinished. Pure."""
    needed = {series_of(name) for name, rollouts in held.items() if set(rollouts) & set(unfinished)}
    return [name for name in held if series_of(name) not in needed]


def ways(
    held: Iterable[Holding], *, here: str, there: Collection[str], is_copied: Callable[[Holding], bool]
) -> Iterator[tuple[Way, Holding]]:
    """How a rollout can go on at the node ``here``, which has the snapshots ``there``; the best first. Pure.

    A snapshot counts as this node's only where its record says so: an id alone may be another one's.
    """
    for one in held:
        if one.state is None:
            yield "plain", one
        elif one.node in ("", here) and one.state.snapshot_id in there:
            yield "here", one
        elif is_copied(one):
            yield "copy", one


def why_not(held: Sequence[Holding], *, here: str, shared: bool, missed: str, failures: Sequence[str]) -> str:
    """Why a rollout starts over, though checkpoints hold it. Pure."""
    newest = held[0]
    if newest.node in ("", here):
        reason = f"the snapshot of {newest.checkpoint_id} is gone from {here}"
    else:
        reason = f"{newest.checkpoint_id} has its sandbox on the node {newest.node}, and this is {here}"
    copy = "no copy of it is complete" if shared else "snapshots are not copied (snapshot_share)"
    return "; ".join([reason, *([missed] if missed else []), *(failures or [copy])])


def _read(saved: Saved) -> dict[str, Holding]:
    """By rollout; nothing of a checkpoint that is damaged."""
    try:
        return _holdings(saved)
    except (CheckpointError, ValidationError) as error:
        detail = error.detail if isinstance(error, CheckpointError) else str(error)
        warnings.warn(f"checkpoint {saved.checkpoint_id} is skipped: {detail}", BadCheckpoint, stacklevel=2)
        return {}


def _holdings(saved: Saved) -> dict[str, Holding]:
    path = Path(saved.path)
    checkpoint = catalog.read(path)
    name, scope = checkpoint.checkpoint_id, checkpoint.episodes
    place = store.folder(path, "environment", ROLLOUTS)
    episodes = store.read_records(place, EpisodeRecord, checkpoint_id=name, scope=scope)
    place = store.folder(path, "resources", SANDBOXES)
    sessions = store.read_records(place, ResourcesSessionRecord, checkpoint_id=name, scope=scope)
    states = {one.session_id: SandboxState.model_validate(one.state) for one in sessions}
    held = {}
    for record in episodes:
        mark, rollout = _mark(record, name), record.episode_id.rollout_id
        if mark.next not in WITH_BOX or rollout in states:
            held[rollout] = Holding(mark, saved.details.created_at, record.task_digest, states.get(rollout))
    return held


def _mark(record: EpisodeRecord, checkpoint_id: str) -> Bookmark:
    mark = Bookmark.model_validate(record.boundary)
    budget = mark.budget.model_copy(update={"spent_s": record.budget_spent_s})
    return mark.model_copy(update={"budget": budget, "checkpoint_id": checkpoint_id, "snapshot": None})
