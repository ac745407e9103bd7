"""What dead processes have left of local boxes: directories and control groups. Their processes die with them.

Local boxes have no leases: their owner holds a lock in the state directory, see ``layers``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from swe_sdk.sandbox.locks import is_locked, locked
from swe_sdk.sandbox.providers.local.cgroups import Cgroups
from swe_sdk.sandbox.reaping import OwnedBox


def owned_boxes(state: Path, cgroups: Cgroups | None) -> list[OwnedBox]:
    """The boxes below a state directory, and the control groups that nobody needs. Changes nothing."""
    owners = {path.stem for path in (state / "owners").glob("*.lock")} | {p.name for p in (state / "boxes").glob("*")}
    found = [box for owner in sorted(owners) for box in _boxes_of(state, owner)]
    groups = {path.name for path in cgroups.orphans()} if cgroups else set()
    return [*found, *(OwnedBox(handle=name, is_orphan=True, description="control group") for name in sorted(groups))]


def is_box_left(state: Path, handle: str) -> bool:
    """Whether a directory that :func:`owned_boxes` named is still there."""
    return (state / "boxes" / handle).exists() or (state / "owners" / f"{handle}.lock").exists()


def is_group_left(cgroups: Cgroups | None, handle: str) -> bool:
    """Whether a control group that :func:`owned_boxes` named is still there."""
    return cgroups is not None and any(path.name == handle for path in cgroups.orphans())


def _boxes_of(state: Path, owner: str) -> Iterator[OwnedBox]:
    with locked(state / "lock"):  # under which an owner makes its file and locks it
        is_orphan = not is_locked(state / "owners" / f"{owner}.lock")
    names = [path.name for path in (state / "boxes" / owner).glob("box-*")]
    for name in names:
        yield OwnedBox(handle=f"{owner}/{name}", is_orphan=is_orphan, description="box")
    if is_orphan and not names:
        yield OwnedBox(handle=owner, is_orphan=True, description="directory of a dead owner")
