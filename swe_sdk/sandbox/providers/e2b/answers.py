"""What an answer of the system means, in the words of :mod:`swe_sdk.sandbox.providers.remote.failures`.

Statuses of the control plane and codes of envd: what a program of a sandbox prints is nowhere looked at.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from swe_sdk.errors import NoSpace, SandboxError
from swe_sdk.sandbox.providers.remote.failures import InUse, NotThere, Refused, Silent, struck

if TYPE_CHECKING:
    import httpx

UNAUTHORIZED, BUSY, UNAVAILABLE = 401, 429, 503
PASSING = (BUSY, UNAVAILABLE)
"""The system has done nothing, and may do it in a moment."""
_SECRETS = ("X-API-KEY", "X-Access-Token")
_MOST_CHARACTERS = 500
_NOT_FOUND = "was not found"
"""What E2B's gateway says, with status 502, of a sandbox that is not there or paused; see ``e2b/exceptions.py``."""
_STATUS_OF = {
    "invalid_argument": 400,
    "unauthenticated": UNAUTHORIZED,
    "permission_denied": 403,
    "not_found": 404,
    "already_exists": 409,
    "resource_exhausted": BUSY,
    "unavailable": 502,
    "canceled": 502,
    "deadline_exceeded": 504,
}
_REMEDIES = {
    UNAUTHORIZED: "set E2B_API_KEY to a key of this system; is our user known in the sandbox?",
    403: "set E2B_API_KEY to a key that may do this",
    BUSY: "use fewer sandboxes at once, or ask for a higher limit",
    UNAVAILABLE: "try again later",
}


def failure(what: str, status: int, text: str) -> SandboxError:
    """The error for an answer that is no success; ``what`` we wanted, and the ``text`` that came with the refusal."""
    told = f"{what}: {text or 'no reason given'} ({status})"
    if status == 404 or (status == 502 and _NOT_FOUND in text):
        return NotThere(told)
    if status == 409:
        return InUse(told)
    if status in (502, 504):
        return Silent(told)
    if status == 507:
        return NoSpace(told)
    return Refused(told, remedy=_REMEDIES.get(status, ""), status=status)


def failed_call(what: str, code: str, text: str) -> SandboxError:
    """The same for a code of the Connect protocol."""
    return failure(what, _STATUS_OF.get(code, 500), text)


def unanswered(what: str, error: Exception) -> Silent:
    """The same where no answer came, or only a part of it."""
    return Silent(f"{what}: {type(error).__name__}: {error}", remedy="is the system up, and reachable from here?")


def text_of(response: httpx.Response) -> str:
    """What an answer says in words; it has been read. JSON of E2B, or whatever a gateway between us and it sends, but
    for the secrets that we have sent."""
    secrets = [response.request.headers.get(name, "") for name in _SECRETS]
    return struck(_words(response), secrets)[:_MOST_CHARACTERS]


def _words(response: httpx.Response) -> str:
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError):
        return response.text
    return str(body.get("message") or "") if isinstance(body, dict) else ""
