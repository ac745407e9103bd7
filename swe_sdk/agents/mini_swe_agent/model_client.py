"""A client of chat completions, of the standard library alone: it runs in the worker's process.

Its errors tell apart what a person would: the endpoint refused the request, or could not be reached or failed.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from typing import Any

_LONGEST_WAIT_S = 60.0
_TRY_AGAIN = frozenset({408, 409, 425, 429})
_CONTEXT_WINDOW = ("context_length", "context window", "maximum context", "too many tokens", "prompt is too long")


class ModelFailed(Exception):
    """A call gave no reply. ``status`` is the endpoint's own, None where it could not be reached."""

    def __init__(self, message: str, *, status: int | None = None, code: str = "", retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after_s = retry_after_s

    @property
    def may_pass(self) -> bool:
        """Whether the same call may succeed later."""
        return self.status is None or self.status in _TRY_AGAIN or self.status >= 500


class ModelClient:
    """Calls ``<base_url>/chat/completions``, without streaming.

    What may pass is tried again, after 1, 2, 4 and so on seconds, or as many more as the endpoint asks for.
    """

    def __init__(
        self,
        *,
        base_url: str,
        name: str,
        api_key: str,
        timeout_s: float,
        tries: int,
        parameters: dict[str, Any],
        price_in: float,
        price_out: float,
    ) -> None:
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._body = {"model": name, **parameters}
        self._headers = {"content-type": "application/json", "authorization": f"Bearer {api_key}"}
        self._timeout_s = timeout_s
        self._tries = tries
        self._price_in, self._price_out = price_in, price_out
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the gateway is on this machine

    def complete(self, messages: list[dict[str, Any]], *, tools: list[dict[str, Any]]) -> tuple[dict[str, Any], float]:
        """The reply and what it cost; ``ModelFailed``."""
        body = json.dumps({**self._body, "messages": messages, "tools": tools}).encode()
        for attempt in range(1, self._tries + 1):
            try:
                reply = self._post(body)
                return reply, self._cost(reply.get("usage") or {})
            except ModelFailed as error:
                if attempt == self._tries or not error.may_pass:
                    raise
                time.sleep(max(2.0 ** (attempt - 1), error.retry_after_s))
        raise AssertionError("at least one try")

    def _post(self, body: bytes) -> dict[str, Any]:
        request = urllib.request.Request(self._url, body, self._headers)  # an address of our own settings
        try:
            with self._opener.open(request, timeout=self._timeout_s) as reply:
                return _checked(json.loads(reply.read()))
        except urllib.error.HTTPError as error:
            raise _refused(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise ModelFailed(f"the model could not be reached: {error}") from None
        except ValueError as error:
            raise ModelFailed(f"the model's reply cannot be read: {error}") from None

    def _cost(self, usage: dict[str, Any]) -> float:
        stated = usage.get("cost")
        if isinstance(stated, int | float):
            return float(stated)
        tokens_in, tokens_out = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
        return float(tokens_in * self._price_in + tokens_out * self._price_out) / 1e6


def _checked(reply: Any) -> dict[str, Any]:
    try:
        calls = reply["choices"][0]["message"].get("tool_calls") or []
        for call in calls:
            _ = call["id"], call["function"]["name"], call["function"]["arguments"]
            call["function"] = {"name": call["function"]["name"], "arguments": call["function"]["arguments"]}
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise ValueError(f"it is no chat completion: {type(error).__name__} {error}") from None
    assert isinstance(reply, dict)
    return reply


def _refused(error: urllib.error.HTTPError) -> ModelFailed:
    text = _body_of(error)
    try:
        stated = json.loads(text)["error"]
        message, code = str(stated.get("message") or text), str(stated.get("code") or stated.get("type") or "")
    except (AttributeError, KeyError, TypeError, ValueError):
        message, code = text, ""
    about = f"{code} {message}".lower()
    if error.code in (400, 413) and any(words in about for words in _CONTEXT_WINDOW):
        code = "context_window"
    about_it = f"the model answered {error.code}: {message[:500]}"
    return ModelFailed(about_it, status=error.code, code=code, retry_after_s=_retry_after_s(error))


def _retry_after_s(error: urllib.error.HTTPError) -> float:
    """What the endpoint asks for, within reason."""
    try:
        return min(max(float(error.headers.get("retry-after") or 0.0), 0.0), _LONGEST_WAIT_S)
    except ValueError:  # a date
        return 0.0


def _body_of(error: urllib.error.HTTPError) -> str:
    try:
        return error.read(1 << 16).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return ""
