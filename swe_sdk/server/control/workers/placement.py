"""Where restored sessions go, and where requests for their former owners are to be sent. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from swe_sdk.checkpoint.codes import refuse


def place(owners: Mapping[str, int], loads: Mapping[str, int]) -> dict[str, str]:
    """Which live worker takes over from which former owner.

    ``owners``: how many sessions each had; ``loads``: how many each live worker has. An owner that lives keeps its own;
    the others go, the largest first, to whoever has least then. ``checkpoint_error`` where there is no worker.
    """
    if not owners:
        return {}
    if not loads:
        raise refuse("checkpoint_error", "there is no worker to take restored sessions", remedy="start one")
    load = dict(loads)
    placed = {owner: owner for owner in owners if owner in load}
    for owner in placed:
        load[owner] += owners[owner]
    for owner in sorted(set(owners) - set(placed), key=lambda one: (-owners[one], one)):
        placed[owner] = min(load, key=lambda worker: (load[worker], worker))
        load[placed[owner]] += owners[owner]
    return placed


def with_placed(aliases: Mapping[str, str], placed: Mapping[str, str]) -> dict[str, str]:
    """The alias table after a restore: earlier aliases of the same owners are replaced, and no live worker has one."""
    table = {**aliases, **placed}
    return {owner: worker for owner, worker in table.items() if owner != worker}


def without(aliases: Mapping[str, str], worker: str) -> dict[str, str]:
    """The alias table after a worker was lost: what it had is nowhere."""
    return {owner: one for owner, one in aliases.items() if one != worker}
