"""What the supervisor of a remote box says, checked: a program with root's powers may have taken its place.

Whatever comes instead of a reply is a lost box, and no accident in this process.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, Field, NonNegativeInt, ValidationError

from swe_sdk.errors import SandboxLost
from swe_sdk.sandbox.contract import Process

MOST_BYTES = 64 << 20
"""Of a reply, beside the output of a command: a list of processes is long."""


class Said(BaseModel):
    """What is in the header of a reply; more may be there."""


class Facts(Said):
    """What programs are started with, see ``station.facts``."""

    env: dict[str, str]
    uid: NonNegativeInt
    bash: bool


class Living(Said):
    """A list of processes."""

    processes: list[Process]


class Copied(Said):
    """How much of a file was copied."""

    copied: NonNegativeInt


class Larger(Said):
    """How large a file is that was not copied, as there was no room for it."""

    size: NonNegativeInt


class Failure(Said):
    """Why something was not done."""

    error: str
    errno: int | None = None


class Exit(Said):
    """How a command ended, and how much is kept of its two streams."""

    exit_code: int | None
    killed: bool
    tree_gone: bool
    has_starved: bool
    duration_s: float = Field(ge=0, allow_inf_nan=False)
    kept: tuple[NonNegativeInt, NonNegativeInt]
    dropped: tuple[NonNegativeInt, NonNegativeInt]


S = TypeVar("S", bound=Said)


@dataclass(frozen=True)
class Reply:
    """What the supervisor says, and the bytes that go with it."""

    header: dict[str, Any]
    payload: bytes = b""

    @property
    def event(self) -> str:
        """What kind of reply it is."""
        return str(self.header["ev"])

    def read(self, kind: type[S]) -> S:
        """Its header; ``SandboxLost`` where that is no such one."""
        try:
            return kind.model_validate(self.header)
        except ValidationError:
            raise not_ours() from None


def parsed(header: bytes | str, payload: bytes = b"") -> Reply:
    """A reply as it was written; ``SandboxLost`` where it is none."""
    try:
        found = json.loads(header)
    except (ValueError, RecursionError):
        raise not_ours() from None
    if not isinstance(found, dict) or not isinstance(found.get("ev"), str):
        raise not_ours()
    return Reply(found, payload)


def not_ours() -> SandboxLost:
    """The error for what our supervisor would not say."""
    return SandboxLost("something else than our supervisor answers in the sandbox")
