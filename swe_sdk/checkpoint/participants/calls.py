"""What participants share: requests as the pure machine sees them, whose state a commit takes, undoing a restore."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import anyio

from swe_sdk.checkpoint.messages import EpisodeId, Operation, Request
from swe_sdk.checkpoint.protocol.machine import Call
from swe_sdk.model.ids import content_key

T = TypeVar("T")
UNDO_S = 60.0
_log = logging.getLogger("swe_sdk.checkpoint")


def call_of(operation: Operation, request: Request) -> Call:
    """The call that a request makes; two requests that ask for the same have the same arguments."""
    rest = request.model_dump(mode="json", exclude={"checkpoint_id", "deadline_ts"})
    plain = {key: _unordered(value) for key, value in rest.items()}
    return Call(operation, request.checkpoint_id, request.deadline_ts, content_key(plain) if plain else "")


def _unordered(value: Any) -> Any:
    """Lists of ids are sets: their order makes no other request."""
    return sorted(value, key=content_key) if isinstance(value, list) else value


def typed(reply: object, kind: type[T]) -> T:
    """A stored reply, as what it is."""
    assert isinstance(reply, kind)
    return reply


def owner_in(scope: frozenset[EpisodeId] | None, owner: EpisodeId, *, unclaimed: bool) -> EpisodeId | None:
    """As whose state a commit of ``scope`` takes what ``owner`` has; None if it does not.

    What was restored and not claimed yet is taken as that of the attempt which is about to claim it.
    """
    if scope is None or owner in scope:
        return owner
    later = (one for one in scope if one.rollout_id == owner.rollout_id and one.attempt > owner.attempt)
    return next(later, None) if unclaimed else None


async def undo(retire: Callable[[str], Awaitable[None]], keys: Iterable[str]) -> None:
    """Free what a hook has restored before it failed; its own error is the one to be raised."""
    with anyio.move_on_after(UNDO_S, shield=True):
        for key in keys:
            try:
                await retire(key)
            except Exception as error:  # noqa: BLE001  the others are to be freed as well
                _log.warning("session %s could not be freed after a failed restore: %s", key, error)
