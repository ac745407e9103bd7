"""Who saves a run: one process for all of it, or workers on many nodes, each a series of checkpoints of its own.

::

    RUN/snapshots/snapshots.jsonl                   the index of a process that carries out all of the run
                 /<series>/series.json              a worker: on which node, which process, and whether it has ended
                          /snapshots.jsonl          its index
    .../imported/snapshots.jsonl                    snapshots made of copies, as long as their rollouts run

An index is written by its process alone, and looked after by another one of the same node once that has ended.
Plain functions that block.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from pydantic import ValidationError

from swe_sdk.files import write_atomic
from swe_sdk.model.record import Record
from swe_sdk.sandbox.node import node_id
from swe_sdk.sandbox.owner import Owner, current_owner, is_alive
from swe_sdk.store.checkpoints import WHOLE_RUN, snapshots_folder

IMPORTED = "imported"
_SERIES, _INDEX = "series.json", "snapshots.jsonl"


class Series(Record):
    """What one worker saves."""

    name: str
    node: str
    """Which node has its snapshots; empty = whoever reaches the provider."""
    owner: Owner
    is_closed: bool = False
    """Whether its process has said that it saves no more."""

    @property
    def has_ended(self) -> bool:
        """Whether nothing is saved any more, as far as that can be known here."""
        return self.is_closed or is_alive(self.owner) is False


def begin_series(run_dir: Path, node: str) -> Series:
    """A new one, of this process."""
    series = Series(name=f"{WHOLE_RUN}.{secrets.token_hex(4)}", node=node, owner=current_owner())
    snapshots_folder(run_dir, series.name).mkdir(parents=True)
    _write(run_dir, series)
    return series


def close_series(run_dir: Path, series: Series) -> None:
    """This process saves no more: others may look after what it has left."""
    _write(run_dir, series.model_copy(update={"is_closed": True}))


def all_series(run_dir: Path) -> list[Series]:
    """Those of workers."""
    files = sorted(snapshots_folder(run_dir).glob(f"{WHOLE_RUN}.*/{_SERIES}"))
    return [series for file in files if (series := _read(file)) is not None]


def has_indexes(run_dir: Path) -> bool:
    """Whether a snapshot was ever made for the run, on any node."""
    return (snapshots_folder(run_dir) / _INDEX).exists() or bool(all_series(run_dir))


def indexes_here(run_dir: Path, *, with_live: bool = False) -> list[Path]:
    """The folders of the indexes of this node's snapshots that nobody writes now, or of all of this node."""
    here = ("", node_id())
    mine = [one for one in all_series(run_dir) if one.node in here and (with_live or one.has_ended)]
    folders = [snapshots_folder(run_dir), *(snapshots_folder(run_dir, one.name) for one in mine)]
    return [each for folder in folders for each in (folder, folder / IMPORTED) if (each / _INDEX).exists()]


def nodes_elsewhere(run_dir: Path) -> list[str]:
    """Other nodes that have snapshots of the run."""
    return sorted({one.node for one in all_series(run_dir)} - {"", node_id()})


def _write(run_dir: Path, series: Series) -> None:
    write_atomic(snapshots_folder(run_dir, series.name) / _SERIES, series.model_dump_json().encode())


def _read(file: Path) -> Series | None:
    try:
        return Series.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):  # a process was killed before it had written it: it has saved nothing
        return None
