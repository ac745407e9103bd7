"""A verifier that runs elsewhere: patches are posted to it, and its outcomes taken as they are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
from pydantic import ValidationError

from swe_sdk.errors import InputError, VerifierError, VerifierUnreachable
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import Task

if TYPE_CHECKING:
    import httpx

_CONNECT_S = 10.0
_TOO_BUSY = 429
_NOT_NOW = frozenset({408, 425, _TOO_BUSY, 502, 503, 504})
"""Answers that mean: not now. Everything else of 400 and above is an answer."""
_TASK_REFUSED = frozenset({404, 422})
"""Answers that mean: not this task along with a request."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 10.0
_SHOWN_CHARACTERS = 500


class RemoteVerifier:
    """Posts to ``<url>/grade``; implements :class:`swe_sdk.rollouts.ports.Verifier`. Made by :func:`open_verifier`.

    The whole task goes along with the patch. A verifier that takes none along (or not one whose sources lie on this
    machine) is asked by the task's name, and has to require the same tests.

    Where the verifier cannot be reached the post is repeated for ``patience_s`` seconds, where it has too much to do
    until the deadline: an agent's whole work waits for this answer, and a verifier may be restarted meanwhile.
    Posting twice is safe, since equal grades share one execution there.
    """

    def __init__(
        self, url: str, client: httpx.AsyncClient, *, tests_timeout_s: float | None, patience_s: float
    ) -> None:
        self.url = url
        self._client = client
        self._tests_timeout_s = tests_timeout_s
        self._patience_s = patience_s
        self._by_name = False

    async def verify(self, task: Task, patch: Patch, *, deadline_s: float) -> Outcome:
        """What the patch is worth there.

        Raises ``VerifierUnreachable`` where there is no answer within ``deadline_s`` seconds, ``VerifierError`` for one
        that is no verdict.
        """
        try:
            with anyio.fail_after(deadline_s):
                return self._outcome(task, await self._answer(task, patch))
        except TimeoutError:
            raise VerifierUnreachable(f"{self.url} gave no answer within {deadline_s:.0f} s", remedy=_LOOK) from None

    async def _answer(self, task: Task, patch: Patch) -> httpx.Response:
        """By the whole task, or by its name where only that is taken."""
        if not self._by_name:
            answer = await self._posted(self._body(task, patch))
            if answer.status_code not in _TASK_REFUSED:
                return answer
        named = await self._posted(self._body(task.instance_id, patch))
        if not self._by_name and named.is_error:
            return answer  # why the task itself was refused says more
        self._by_name = True
        return named

    def _body(self, task: Task | str, patch: Patch) -> bytes:
        from swe_sdk.server.models import GradeRequest

        return GradeRequest.of(task, patch, eval_timeout_s=self._tests_timeout_s).model_dump_json().encode()

    async def _posted(self, body: bytes) -> httpx.Response:
        """The first answer that is one."""
        gives_up_at = anyio.current_time() + self._patience_s
        pause_s, tries = _FIRST_PAUSE_S, 0
        while True:
            tries += 1
            answer, problem = await self._post_once(body)
            if answer is not None and answer.status_code not in _NOT_NOW:
                return answer
            if answer is not None and answer.status_code == _TOO_BUSY:
                gives_up_at = anyio.current_time() + self._patience_s  # it is alive, and our turn comes
            if anyio.current_time() + pause_s > gives_up_at:
                raise VerifierUnreachable(f"{self.url}: {problem}, in {tries} tries", remedy=_LOOK)
            await anyio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _post_once(self, body: bytes) -> tuple[httpx.Response | None, str]:
        """The answer, and what is wrong with it, or why there is none."""
        import httpx

        try:
            answer = await self._client.post("grade", content=body, headers={"content-type": "application/json"})
        except httpx.TransportError as error:
            return None, f"{type(error).__name__} {error}".strip()
        return answer, f"status {answer.status_code}: {_told(answer)}" if answer.is_error else ""

    def _outcome(self, task: Task, answer: httpx.Response) -> Outcome:
        from swe_sdk.server.models import GradeResponse

        if answer.is_error:
            raise VerifierError(f"{self.url} answered with status {answer.status_code}: {_told(answer)}")
        try:
            outcome = GradeResponse.model_validate_json(answer.content).outcome
        except ValidationError as error:
            raise VerifierError(f"{self.url} answered with what is no verdict: {error.errors()[0]['msg']}") from None
        if outcome.instance_id != task.instance_id:
            raise VerifierError(f"{self.url} answered for {outcome.instance_id!r} instead of {task.instance_id!r}")
        if not _requires_the_same(outcome, task):
            raise VerifierError(
                f"{self.url} has another task by the name {task.instance_id!r}: it requires other tests"
            )
        return outcome.model_copy(update={"artifacts": {}, "evidence": self._evidence(outcome)})

    def _evidence(self, outcome: Outcome) -> Mapping[str, Any]:
        """Its files are not on this machine: where they are is evidence."""
        return {**outcome.evidence, "verifier": {"url": self.url, "artifacts": outcome.artifacts}}


_LOOK = "see whether `swe-sdk serve` runs there, and whether this machine can reach it"


@asynccontextmanager
async def open_verifier(
    url: str, *, tests_timeout_s: float | None = None, patience_s: float = 60.0, token: str | None = None
) -> AsyncIterator[RemoteVerifier]:
    """A verifier at ``url`` (as in ``http://host:8000``), until the block ends.

    ``tests_timeout_s`` = for the tests alone (None = as it is set there), ``token`` = sent as a bearer token. Nothing
    is sent yet. Raises ``InputError`` for what is no URL of HTTP.
    """
    import httpx

    host = require_url(url)
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    timeout = httpx.Timeout(None, connect=_CONNECT_S)  # how long an answer may take, the deadline says
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=32)
    base = f"{url.rstrip('/')}/"
    async with httpx.AsyncClient(
        base_url=base, headers=headers, timeout=timeout, limits=limits, trust_env=_leaves_here(host)
    ) as client:
        yield RemoteVerifier(url, client, tests_timeout_s=tests_timeout_s, patience_s=patience_s)


def _requires_the_same(outcome: Outcome, task: Task) -> bool:
    """Whether it was graded by our tests; a mask may not have come to naming them."""
    named = {*outcome.tests.fail_to_pass, *outcome.tests.pass_to_pass}
    ours = {*task.grading.fail_to_pass, *task.grading.pass_to_pass}
    return ours <= named or (outcome.masked and not named)


def require_url(url: str) -> str:
    """The host of a verifier's URL; ``InputError`` for what is no URL of HTTP."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"verifier={url!r} is no URL", remedy='give one like "http://127.0.0.1:8000"')
    return parts.hostname


def _leaves_here(host: str) -> bool:
    """Whether a proxy of the environment may be asked: never for this machine itself."""
    return host not in ("localhost", "127.0.0.1", "::1")


def _told(answer: httpx.Response) -> str:
    """What an answer says is wrong."""
    from swe_sdk.server.models import ErrorResponse

    try:
        error = ErrorResponse.model_validate_json(answer.content).error
    except ValidationError:
        return answer.text[:_SHOWN_CHARACTERS]
    return f"{error.code}: {error.detail}" + (f" ({error.remedy})" if error.remedy else "")
