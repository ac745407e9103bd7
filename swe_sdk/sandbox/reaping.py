"""What a provider does to be reaped, and what a reaper says of it. :mod:`swe_sdk.sandbox.reaper` does it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, Protocol, runtime_checkable

from pydantic import Field

from swe_sdk.model.record import Record
from swe_sdk.sandbox.leases import LABEL_LEASE, LABEL_OWNER
from swe_sdk.sandbox.owner import Owner, parse_owner


class OwnedBox(Record):
    """Something of ours that an engine has, and that shall go with its owner."""

    handle: str
    """What :meth:`SupportsReaping.remove` takes."""
    lease: str | None = None
    """The id of its lease, from its label."""
    owner: Owner | None = None
    """From its label; None where it has none that can be read."""
    is_orphan: bool | None = None
    """What the provider itself knows of the owner, by a lock of its own say; None = judge by ``owner``."""
    description: str = ""
    """For people: "container", "overlay directory", ..."""


def labelled(handle: str, labels: Mapping[str, str], description: str = "") -> OwnedBox | None:
    """From the labels that ``Lease.labels`` gave; None where they are not ours."""
    if LABEL_LEASE not in labels:
        return None
    owner = parse_owner(labels.get(LABEL_OWNER, ""))
    return OwnedBox(handle=handle, lease=labels[LABEL_LEASE], owner=owner, description=description)


@runtime_checkable
class SupportsReaping(Protocol):
    """A provider whose boxes any process can find and remove.

    Neither method makes or opens anything, so that a dry run changes nothing.
    """

    @property
    def name(self) -> str:
        """As in the registry."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Plain data, without secrets, by which :func:`swe_sdk.sandbox.registry.restore_provider` reaches the engine.

        Two providers with equal settings have the same boxes.
        """

    async def owned(self) -> list[OwnedBox]:
        """Everything of ours that the engine has, of any process: running or not, complete or half made.

        Only what shall go with its owner: no snapshots and images that are complete. A ``SweError`` where the engine
        cannot be asked.
        """

    async def remove(self, handle: str) -> None:
        """Remove it, whatever its state, and return when the engine has confirmed that it is gone.

        Gone already is no error, nor is another reaper that removes it at the same time: wait for it. Anything else is
        a ``SweError``; the record then stays for the next time.
        """


Action = Literal["removed", "would_remove", "failed", "kept"]


class ReapItem(Record):
    """What became of one box or record, and why."""

    provider: str
    lease: str | None
    handle: str | None
    action: Action
    reason: str


class ReapReport(Record):
    """What a reaper found and did."""

    dry_run: bool
    items: tuple[ReapItem, ...] = ()
    """Boxes of live owners are not among them."""
    live: int = 0
    """Boxes of live owners."""
    unreachable: dict[str, str] = Field(default_factory=dict)
    """Why these providers could not be asked. Where something should have been removed there, an item says so."""

    @property
    def summary(self) -> str:
        """One line."""
        counts = Counter(item.action for item in self.items)
        done = f"{counts['would_remove']} to remove" if self.dry_run else f"{counts['removed']} removed"
        return f"{done}, {counts['failed']} failed, {counts['kept']} kept, {self.live} of live programs left alone"

    def of(self, action: Action) -> tuple[ReapItem, ...]:
        """The items of one kind."""
        return tuple(item for item in self.items if item.action == action)
