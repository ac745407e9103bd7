"""Another server of an episode, as a client: what can be asked again is, and what failed is said in our words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

import anyio
import httpx
from pydantic import SecretStr

from swe_sdk.errors import SweError
from swe_sdk.grading.classify import Failure
from swe_sdk.model.policy import FailureKind, Stage
from swe_sdk.server.gym.http import error_told, open_client
from swe_sdk.server.gym.loan_messages import LOST

_KINDS = frozenset(get_args(FailureKind))
_BUSY = frozenset({"too_busy", "draining"})
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0
_UNDELIVERED = (httpx.ConnectError, httpx.ConnectTimeout)


class PeerFailed(SweError):
    """A server that an episode needs is gone, or refuses what it is asked: ``kind`` is that of the policy table."""

    def __init__(self, kind: FailureKind, message: str, evidence: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.kind = kind
        self.evidence = dict(evidence)

    def failure(self, stage: Stage) -> Failure:
        """For the policy."""
        return Failure(self.kind, stage, self.message, self.evidence)


class PeerAnswer(NamedTuple):
    """An answer below 400."""

    body: dict[str, Any]
    headers: Mapping[str, str]


class Peer:
    """One server. ``what`` names it for people. Of one event loop; close it."""

    def __init__(self, what: str, url: str, *, token: SecretStr | None = None, patience_s: float = 60.0) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token.get_secret_value()}"}
        self.url = url.rstrip("/")
        self._what = what
        self._client = open_client(url, headers=headers)
        self._patience_s = patience_s

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        again: bool = True,
    ) -> PeerAnswer:
        """The answer to a post. A peer that is busy, or cannot be connected to, is asked again for a while.

        ``again`` = so is one that broke off: for posts that may be made twice. Raises :class:`PeerFailed`.
        """
        gives_up_at, pause_s = anyio.current_time() + self._patience_s, _FIRST_PAUSE_S
        while True:
            try:
                answer = await self._client.post(path, json=body, headers=dict(headers or {}))
                if not _is_busy(answer):
                    return self._read(answer)
                failed = self._refused(answer)
            except httpx.TransportError as error:
                failed = self._gone(error)
                if not (again or isinstance(error, _UNDELIVERED)):
                    raise failed from error
            if anyio.current_time() + pause_s > gives_up_at:
                raise failed
            await anyio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    def _read(self, answer: httpx.Response) -> PeerAnswer:
        if answer.is_error:
            raise self._refused(answer)
        try:
            body = answer.json()
        except ValueError:
            body = None
        if not isinstance(body, dict):
            text = f"the {self._what} server at {self.url} did not answer with a JSON object"
            raise PeerFailed("internal_error", text, {"status": answer.status_code})
        return PeerAnswer(body, answer.headers)

    def _refused(self, answer: httpx.Response) -> PeerFailed:
        code, detail = error_told(answer)
        kind: FailureKind = code if code in _KINDS else _meaning(answer.status_code)  # type: ignore[assignment]
        if code in LOST:
            kind = "lost_worker"
        evidence = {"server": self._what, "url": self.url, "status": answer.status_code, "code": code}
        return PeerFailed(kind, f"the {self._what} server refuses: {detail}", evidence)

    def _gone(self, error: httpx.TransportError) -> PeerFailed:
        evidence = {"server": self._what, "url": self.url, "error": type(error).__name__}
        why = str(error) or type(error).__name__
        return PeerFailed("lost_worker", f"the {self._what} server at {self.url} is gone: {why}", evidence)


def _meaning(status: int) -> FailureKind:
    """Of a refusal that names no kind: a wrong task is the caller's, a refused attempt is over, the rest a defect."""
    if status in (404, 413, 422):
        return "invalid_task"
    if status == 409:
        return "cancelled"
    return "provider_unavailable" if status in (429, 503) else "internal_error"


def _is_busy(answer: httpx.Response) -> bool:
    return answer.status_code in (429, 503) and error_told(answer)[0] in _BUSY
