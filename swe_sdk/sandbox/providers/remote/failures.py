"""What a remote system's refusals mean. Only what the system itself says is looked at, never a program's output.

::

    SandboxError
    └── RemoteTrouble       base of what comes of asking a remote system
        ├── NotThere        it has no sandbox or snapshot of that id
        ├── InUse           it refuses because something stands on the snapshot, or another call is under way
        ├── FileMissing     no such file in the sandbox
        ├── Silent          it could not be reached, or did not answer in time: whether it did it is unknown
        └── Refused         it answered that it cannot do it
"""

from __future__ import annotations

from collections.abc import Iterable

from swe_sdk.errors import SandboxError


class RemoteTrouble(SandboxError):
    """Base of what comes of asking a remote system."""


class NotThere(RemoteTrouble):
    """It has no sandbox or snapshot of that id (any more)."""


class InUse(RemoteTrouble):
    """It refuses because of something else that stands on it, or is under way."""


class FileMissing(RemoteTrouble):
    """There is no such file in the sandbox."""


class Silent(RemoteTrouble):
    """It could not be reached, or did not answer in time: whether it did what was asked is unknown."""


class Refused(RemoteTrouble):
    """It answered that it cannot do it; ``status`` is that of the answer, 0 where it has none."""

    def __init__(self, message: str, *, remedy: str = "", status: int = 0) -> None:
        super().__init__(message, remedy=remedy)
        self.status = status


def struck(text: str, secrets: Iterable[str]) -> str:
    """What a system says, but for secrets of ours: it may quote the one that it refuses."""
    for secret in filter(None, secrets):
        text = text.replace(secret, "...")
    return text
