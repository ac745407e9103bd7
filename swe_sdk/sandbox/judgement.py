"""Whether a box may be removed by somebody who is not its owner."""

from __future__ import annotations

from typing import Literal, NamedTuple

from swe_sdk.sandbox.leases import Lease, LeaseBook
from swe_sdk.sandbox.owner import Owner, is_on_this_machine

GRACE_S = 300.0
"""After a lease has expired: clocks differ, and machines sleep."""


class Judgement(NamedTuple):
    """*live*: its owner lives, never touch it; *kept*: leave it for now; *due*: remove it."""

    fate: Literal["live", "kept", "due"]
    reason: str


def judge(book: LeaseBook, lease: Lease, grace_s: float = GRACE_S) -> Judgement:
    """What is to be done about a box with a lease."""
    owner = lease.owner
    if not lease.remote and not is_on_this_machine(owner):
        return Judgement("kept", f"it is on the machine {owner.host}: reap there")
    if lease.state == "closing_failed":
        return Judgement("due", f"its owner could not close it: {lease.last_error}")
    judgement = judge_owner(book, owner)
    if judgement.fate == "kept" and book.has_expired(lease, grace_s):
        return Judgement("due", f"its lease has expired, and {judgement.reason}")
    return judgement


def judge_owner(book: LeaseBook, owner: Owner | None) -> Judgement:
    """What is to be done about a box of which only the owner is known."""
    if owner is None:
        return Judgement("kept", "it does not say whose it is")
    process = f"process {owner.pid} on {owner.host}"
    match book.is_alive(owner):
        case None:
            return Judgement("kept", f"its owner, {process}, cannot be seen from here")
        case True:
            return Judgement("live", f"its owner, {process}, lives")
        case False:
            return Judgement("due", f"its owner, {process}, is dead")
