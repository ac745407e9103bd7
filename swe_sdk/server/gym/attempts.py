"""Whose attempt a request is: the path says it, the body says it, and both must say the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.server.wire import ROLLOUTS, episode_of

_KEY = "capture_key"


def with_attempts(endpoints: Mapping[str, Callable[[Request], Awaitable[Response]]]) -> list[Route]:
    """A POST route for each path, and one below the path of an attempt."""
    prefixes = ("", f"{ROLLOUTS}/{{{_KEY}}}")
    return [
        Route(f"{prefix}{path}", endpoint, methods=["POST"])
        for prefix in prefixes
        for path, endpoint in endpoints.items()
    ]


def session_cookie(name: str, session_id: str) -> str:
    """The header ``Set-Cookie`` that binds a client to its session."""
    return f"{name}={session_id}; Path=/; HttpOnly; SameSite=Strict"


def attempt_in(request: Request) -> EpisodeId | None:
    """The attempt below whose path a request is made; None where it is made below none."""
    key = request.path_params.get(_KEY)
    return None if key is None else episode_of(key)


def require_same(request: Request, episode_id: EpisodeId) -> None:
    """``checkpoint_conflict`` where a request is made below the path of another attempt than its body says."""
    told = attempt_in(request)
    if told not in (None, episode_id):
        raise refuse("checkpoint_conflict", f"the path is of {told}, and the body of {episode_id}")
