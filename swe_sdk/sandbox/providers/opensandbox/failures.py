"""Our errors for those of the OpenSandbox SDK, by status and code of the server's answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from swe_sdk.errors import ImageNotFound, NoSpace, PullFailed, SandboxError
from swe_sdk.sandbox.providers.opensandbox.client import require_sdk
from swe_sdk.sandbox.providers.opensandbox.settings import API_KEY
from swe_sdk.sandbox.providers.remote.failures import InUse, NotThere, Refused, Silent, struck

_FULL = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_UNKNOWN_IMAGE = re.compile(r"not found|does not exist|access denied|manifest unknown", re.IGNORECASE)
_LONGEST = 500
_WITHIN_S = 120.0


@contextmanager
def translated(what: str, *, key: str) -> Iterator[None]:
    """Around calls of the SDK that do ``what``. The ``key`` that they send is in no error."""
    require_sdk()
    import httpx
    from opensandbox.exceptions import SandboxException

    try:
        yield
    except SandboxException as error:
        raise _ours(error, what, key) from None  # whose text may hold the key
    except (httpx.HTTPError, OSError) as error:  # a stream that breaks off is not translated by the SDK
        raise Silent(f"OpenSandbox did not answer to {what}: {_short(error, key)}") from error


@contextmanager
def asked(what: str, *, key: str) -> Iterator[None]:
    """The same around what is answered at once: an answer that trickles in for ever is none."""
    with translated(what, key=key), anyio.fail_after(_WITHIN_S):
        yield


def _ours(error: Exception, what: str, key: str) -> SandboxError:
    from opensandbox.exceptions import SandboxApiException, SandboxConnectionException, SandboxTimeoutException

    told = _short(error, key)
    if isinstance(error, SandboxConnectionException | SandboxTimeoutException):
        return Silent(f"OpenSandbox did not answer to {what}: {told}")
    if isinstance(error, SandboxApiException) and error.status_code:
        return _answered(error.status_code, str(error.error.code), f"OpenSandbox could not {what}: {told}")
    if isinstance(error.__cause__, OSError) or "Network connectivity" in str(error):
        return Silent(f"OpenSandbox did not answer to {what}: {told}")
    return Refused(f"OpenSandbox could not {what}: {told}")


def _answered(status: int, code: str, message: str) -> SandboxError:
    if _FULL.search(message):
        return NoSpace(message, remedy="free space where the server keeps its boxes")
    if code.endswith("IMAGE_PULL_FAILED"):
        kind = ImageNotFound if _UNKNOWN_IMAGE.search(message) else PullFailed
        return kind(message, remedy="is the image named as the server's engine knows it?")
    if status in (401, 403):
        return Refused(message, remedy=f"set {API_KEY} to the server's key", status=status)
    if status == 404:
        return NotThere(message)
    if status == 409:
        return InUse(message)
    if status in (502, 503, 504):
        return Silent(message)
    return Refused(message, status=status)


def _short(error: Exception, key: str) -> str:
    return struck(f"{type(error).__name__}: {error}", [key])[:_LONGEST]
