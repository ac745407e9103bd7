"""Signed tokens for what a session lends: any process that has the secret can check one, and none keeps a list.

A token is of one attempt, one session, one purpose, and for a time. What it says is readable by whoever holds it, and
cannot be changed. It also says which server has the session, so that any other can pass a call on.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from typing import Literal

from pydantic import ValidationError

from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.model.record import Record

Purpose = Literal["sandbox", "tools"]
_CONTEXT = b"swe_sdk session token 1\0"
"""So that a signature by the same secret for anything else is none here."""
_LONGEST = 8192


class Grant(Record):
    """What a token says."""

    purpose: Purpose
    session_id: str
    episode_id: EpisodeId
    owner: str
    """URL of the server that has the session."""
    expires_at: float
    """Unix seconds."""


class Signer:
    """Makes and checks tokens. ``clock`` gives unix seconds."""

    def __init__(self, secret: bytes | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._secret = secret or secrets.token_bytes(32)
        self._clock = clock

    def issue(self, grant: Grant) -> str:
        """A token that says so; the same grant has the same token."""
        said = _encoded(grant.model_dump_json().encode())
        return f"{said}.{self._signature(said)}"

    def check(self, token: str, purpose: Purpose) -> Grant:
        """What a token says; ``unauthorized`` where it is forged, expired, or for another purpose."""
        said, _, signature = token.partition(".")
        if len(token) > _LONGEST or not hmac.compare_digest(signature.encode(), self._signature(said).encode()):
            raise refuse("unauthorized", "the token is missing, or not one of this server's")
        grant = _read(said)
        if grant.purpose != purpose:
            raise refuse("unauthorized", f"the token is for {grant.purpose}, not for {purpose}")
        if self._clock() >= grant.expires_at:
            raise refuse("unauthorized", "the token has expired", remedy="seed the session again")
        return grant

    def _signature(self, said: str) -> str:
        return _encoded(hmac.digest(self._secret, _CONTEXT + said.encode("utf-8", "surrogateescape"), hashlib.sha256))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _read(said: str) -> Grant:
    try:
        return Grant.model_validate_json(base64.urlsafe_b64decode(said + "=" * (-len(said) % 4)))
    except (ValueError, binascii.Error, ValidationError) as error:
        raise refuse("unauthorized", "the token cannot be read") from error
