"""How OpenCode is told what to do and what not: all of it in variables, no file in the repository."""

from __future__ import annotations

import json
from typing import Any

_OFF = (
    "OPENCODE_DISABLE_AUTOUPDATE",
    "OPENCODE_DISABLE_CLAUDE_CODE",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS",
    "OPENCODE_DISABLE_EXTERNAL_SKILLS",
    "OPENCODE_DISABLE_LSP_DOWNLOAD",
    "OPENCODE_DISABLE_MODELS_FETCH",
    "OPENCODE_DISABLE_PROJECT_CONFIG",
)
"""What would look for a network, or obey files of the repository or of a user."""
_FOLDERS = {"XDG_CACHE_HOME": "cache", "XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "data", "XDG_STATE_HOME": "state"}
_HEAP_BYTES = 512 << 20


def environment(state: str, config: dict[str, Any], api_key: str) -> dict[str, str]:
    """Its variables: everything it writes is below ``state``. The key is named in the configuration, not part of it."""
    return {
        **dict.fromkeys(_OFF, "1"),
        **{name: f"{state}/{folder}" for name, folder in _FOLDERS.items()},
        "OPENCODE_CONFIG_CONTENT": json.dumps(config),
        "BUN_JSC_forceRAMSize": str(_HEAP_BYTES),  # it collects garbage as if the machine were that small
        "SWE_SDK_MODEL_KEY": api_key,
    }


def configuration(
    model: str, base_url: str, *, context_tokens: int, output_tokens: int, more: dict[str, Any]
) -> dict[str, Any]:
    """One provider with one model, everything allowed but the web; ``more`` is laid over it, key by key."""
    name = f"swe-sdk/{model}"
    provider = {
        "npm": "@ai-sdk/openai-compatible",  # part of its program
        "options": {"baseURL": base_url, "apiKey": "{env:SWE_SDK_MODEL_KEY}"},
        "models": {model: {"name": model, "limit": {"context": context_tokens, "output": output_tokens}}},
    }
    ours = {
        "model": name,
        "small_model": name,
        "enabled_providers": ["swe-sdk"],
        "provider": {"swe-sdk": provider},
        "permission": {"*": "allow", "webfetch": "deny", "websearch": "deny", "question": "deny"},
        "autoupdate": False,
        "share": "disabled",
    }
    return _merged(ours, more)


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged
