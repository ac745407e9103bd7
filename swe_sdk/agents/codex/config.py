"""Codex' configuration: a file of its own folder in the box, and no secret in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

KEY_VARIABLE = "SWE_SDK_MODEL_KEY"
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def configuration(
    model: str, base_url: str, *, context_tokens: int, tries: int, timeout_s: float, more: Mapping[str, Any]
) -> str:
    """As TOML: one provider, nothing asked and nothing forbidden but the web; ``more`` is laid over it, key by key."""
    provider = {
        "name": "swe_sdk",
        "base_url": base_url,
        "env_key": KEY_VARIABLE,
        "wire_api": "responses",
        "request_max_retries": 0,
        "stream_max_retries": tries - 1,
        "stream_idle_timeout_ms": int(timeout_s * 1000),
    }
    ours = {
        "model": model,
        "model_provider": "swe_sdk",
        "model_providers": {"swe_sdk": provider},
        "model_context_window": context_tokens,
        "approval_policy": "never",
        "sandbox_mode": "danger-full-access",  # the box is the sandbox
        "shell_environment_policy": {"exclude": [KEY_VARIABLE]},
        "check_for_update_on_startup": False,
        "analytics": {"enabled": False},
        "feedback": {"enabled": False},
        "web_search": "disabled",
    }
    settings = dict(_flat(ours)) | dict(_flat(more))
    return "".join(f"{name} = {_toml(value)}\n" for name, value in settings.items())


def _flat(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values."""
    for key, value in settings.items():
        name = above + (key if _BARE.fullmatch(key) else _toml(key))
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        else:
            yield name, value


def _toml(value: Any) -> str:
    """Texts, numbers, truth values and lists of them: as JSON has them, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
