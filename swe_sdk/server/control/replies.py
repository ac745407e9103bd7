"""Which reply an operation has, and how one is read that others have written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from swe_sdk.checkpoint import messages
from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.messages import Operation, Reply
from swe_sdk.model.record import Record

R = TypeVar("R", bound=Record)

REPLIES: Mapping[Operation, type[Reply]] = {
    "prepare": messages.PrepareReply,
    "renew": messages.RenewReply,
    "commit": messages.CommitReply,
    "restore": messages.RestoreReply,
    "resume": messages.ResumeReply,
    "retire": messages.RetireReply,
    "forget": messages.ForgetReply,
    "release": messages.ReleaseReply,
}
"""By operation; ``status`` has :class:`~swe_sdk.checkpoint.messages.Status`."""


def read_reply(kind: type[R], value: Any) -> R:
    """A reply; what a newer server tells beside it is left aside. ``checkpoint_error`` where it is none."""
    if isinstance(value, dict):
        value = {name: one for name, one in value.items() if name in kind.model_fields}
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise refuse("checkpoint_error", f"the answer is no {kind.__name__}: {error}") from error
