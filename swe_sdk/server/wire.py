"""What NeMo Gym's servers say to each other, beside their bodies: headers, paths of attempts, tokens, errors.

Shared by the control routes (:mod:`swe_sdk.server.control`) and the data routes between servers.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

from pydantic import SecretStr
from starlette.responses import Response

from swe_sdk.checkpoint.codes import CODES, refuse
from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.errors import CheckpointError, InputError, SweError

ACTIVATION = "x-ng-agent-activation"
"""Which activation of an agent's session is asked for: 1, 2, 3, ..."""
VERIFY = "x-ng-checkpoint-verify"
"""On the reply to a seed of a resources session: which kind of step its verification is, ``replay`` or ``wait``."""
RESTART = "x-ng-checkpoint-restart"
"""On replies to seeds, ``1``: the episode can only start over."""
REBINDS_TOOLS = "x-ng-checkpoint-rebinds-tools"
"""On the reply to a seed of an agent's session, ``1``: once restored it wants to be seeded again, with new tokens."""
ROLLOUTS = "/ng-rollout"
"""Every request of an attempt is made below ``/ng-rollout/<capture key>``."""

_LATER_ATTEMPT = re.compile(r"(?P<rollout>.+)-a(?P<attempt>[1-9][0-9]{0,999})", re.DOTALL)
"""Python reads no number of more than 4,300 digits."""


def capture_key(episode_id: EpisodeId) -> str:
    """``<rollout>`` for attempt 0, ``<rollout>-a<N>`` after. ``InputError`` for an id that would be read as another."""
    if _LATER_ATTEMPT.fullmatch(episode_id.rollout_id):
        raise InputError(f"the rollout id {episode_id.rollout_id!r} ends as attempts do", remedy="choose another id")
    return f"{episode_id.rollout_id}-a{episode_id.attempt}" if episode_id.attempt else episode_id.rollout_id


def episode_of(key: str) -> EpisodeId:
    """The attempt that has this capture key; ``rollout_id_required`` where it is empty."""
    if not key:
        raise refuse("rollout_id_required", f"the path names no rollout: {ROLLOUTS}/<capture key>/...")
    later = _LATER_ATTEMPT.fullmatch(key)
    if later is None:
        return EpisodeId(rollout_id=key, attempt=0)
    return EpisodeId(rollout_id=later["rollout"], attempt=int(later["attempt"]))


def path_of(episode_id: EpisodeId) -> str:
    """Below which path the requests of an attempt are made, escaped."""
    return f"{ROLLOUTS}/{quote(capture_key(episode_id), safe='')}"


def bearer_token(authorization: str | None) -> str:
    """What a header ``Authorization`` shows; empty where it shows no bearer token. Takes no longer than it is long."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip(" ") if scheme.lower() == "bearer" else ""


def shows_token(authorization: str | None, token: SecretStr) -> bool:
    """Whether a header ``Authorization`` shows this bearer token; the time it takes tells nothing about the token."""
    return hmac.compare_digest(bearer_token(authorization).encode("latin-1"), token.get_secret_value().encode())


def require_token(authorization: str | None, token: SecretStr) -> None:
    """``unauthorized`` unless the header shows the token."""
    if not shows_token(authorization, token):
        raise refuse("unauthorized", "the bearer token is missing or wrong")


class ErrorAnswer(NamedTuple):
    """An answer of 400 and above."""

    status: int
    code: str
    detail: str


def as_refusal(error: Exception) -> CheckpointError:
    """Whatever a participant has raised, as what a coordinator elsewhere hears of it."""
    if isinstance(error, CheckpointError):
        return error
    return refuse("checkpoint_error", str(error) if isinstance(error, SweError) else repr(error))


def detail_of(error: CheckpointError) -> str:
    """The detail of an error, and at its end what to do: its code goes apart."""
    return f"{error.detail} ({error.remedy})" if error.remedy else error.detail


def refusal(error: CheckpointError) -> Response:
    """``{"error": {"code", "detail"}}``, with the status of the code."""
    status = CODES[error.code].status if error.code in CODES else 409  # type: ignore[index]
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return error_response(ErrorAnswer(status, error.code, detail_of(error)), headers)


def error_response(answer: ErrorAnswer, headers: Mapping[str, str] | None = None) -> Response:
    """An error as an answer; in ASCII, since a detail may quote what no encoding knows."""
    body = json.dumps({"error": {"code": answer.code, "detail": answer.detail}})
    return Response(body, answer.status, dict(headers or {}), media_type="application/json")


def read_error(status: int, body: bytes) -> CheckpointError:
    """The error that an answer of 400 and above tells; ``checkpoint_error`` with its text where it is not one of ours.

    NeMo Gym's reviews name ``checkpoint_deadline_exceeded`` what is ``deadline_exceeded`` here.
    """
    try:
        told = json.loads(body)["error"]
        code, detail = str(told["code"]), str(told["detail"])
    except (ValueError, TypeError, KeyError):
        text = body[:500].decode("utf-8", "replace")
        return refuse("checkpoint_error", f"status {status}: {text}")
    return CheckpointError("deadline_exceeded" if code == "checkpoint_deadline_exceeded" else code, detail)
