"""What an engine's refusals mean. Only what the engine itself says is looked at, never a program's output."""

from __future__ import annotations

import errno
import re
from pathlib import Path

from swe_sdk.errors import NoSpace, ProviderUnavailable, SandboxError, SweError

_FULL = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_LONGEST = 500


class EngineTrouble(SandboxError):
    """Base of what comes of asking an engine."""


class NotThere(EngineTrouble):
    """The engine has no container or image of that name."""


class Conflict(EngineTrouble):
    """The engine refuses because of something else that is there or under way."""


class EngineSilent(EngineTrouble):
    """The engine could not be reached, or did not answer in time: whether it did what was asked is unknown."""


class Refused(EngineTrouble):
    """The engine answered that it cannot do it; ``status`` is that of the answer."""

    def __init__(self, message: str, *, status: int = 500) -> None:
        super().__init__(message)
        self.status = status


def translated(error: Exception, what: str) -> SweError | None:
    """Our error for one that docker-py raised while it did ``what``; None for one that is not the engine's."""
    import docker.errors
    import requests.exceptions
    import urllib3.exceptions

    if isinstance(error, docker.errors.APIError):
        return _answered(error.status_code or 500, str(error.explanation or error), what)
    if isinstance(error, docker.errors.DockerException):
        return EngineSilent(f"the Docker engine cannot be used to {what}: {_short(error)}")
    if isinstance(error, requests.exceptions.RequestException | urllib3.exceptions.HTTPError | OSError):
        return EngineSilent(f"the Docker engine did not answer to {what}: {_short(error)}")
    return None


def unusable(state: Path, error: OSError) -> SweError:
    """The state directory, and not the engine, is at fault."""
    kind = NoSpace if error.errno in (errno.ENOSPC, errno.EDQUOT) else ProviderUnavailable
    remedy = "set SWE_SDK_STATE to a directory that you may write, on a disk with space left"
    return kind(f"the state directory {state} cannot be used: {error}", remedy=remedy)


def _answered(status: int, text: str, what: str) -> SweError:
    message = f"the Docker engine could not {what}: {text.strip()[:_LONGEST]}"
    if _FULL.search(text):
        return NoSpace(message, remedy="free space where the engine keeps its data (docker system df)")
    if status == 404:
        return NotThere(message)
    if status == 409:
        return Conflict(message)
    return Refused(message, status=status)


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_LONGEST]
