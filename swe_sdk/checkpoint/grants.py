"""Tokens for tools that hold for one attempt of one session."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass

from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.messages import EpisodeId


@dataclass(frozen=True)
class Grant:
    """Whose token it is."""

    session_id: str
    episode_id: EpisodeId


class GrantIssuer:
    """Issues and checks tokens within this process; they are secrets, and written nowhere."""

    def __init__(self) -> None:
        self._grants: dict[str, Grant] = {}

    def issue(self, session_id: str, episode_id: EpisodeId) -> str:
        """A new token. Those of earlier attempts of the session are refused from now on."""
        for token, grant in list(self._grants.items()):
            if grant.session_id == session_id and grant.episode_id != episode_id:
                if grant.episode_id.attempt > episode_id.attempt:
                    raise refuse("stale_attempt", f"{grant.episode_id} has grants already")
                del self._grants[token]
        token = secrets.token_urlsafe(24)
        self._grants[token] = Grant(session_id, episode_id)
        return token

    def check(self, token: str) -> Grant:
        """Whose token it is; ``unauthorized`` where it is nobody's, or no longer."""
        for known, grant in self._grants.items():
            if hmac.compare_digest(known, token):
                return grant
        raise refuse("unauthorized", "the grant is unknown, or of an attempt that is over")

    def revoke(self, session_id: str) -> None:
        """Refuse all tokens of a session from now on."""
        self._grants = {token: one for token, one in self._grants.items() if one.session_id != session_id}
