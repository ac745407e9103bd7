"""Identifiers and content keys."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from typing import Any

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def new_id(prefix: str) -> str:
    """A short random identifier, ``prefix-`` and 12 hex digits."""
    return f"{prefix}-{secrets.token_hex(6)}"


def content_key(value: Any) -> str:
    """Sha256 over the canonical JSON of plain data: equal data, equal key, whatever the order of its fields."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def safe_name(name: str) -> str:
    """``name`` as one path component: odd characters become ``_``, a digest keeps long or altered names apart."""
    plain = _UNSAFE.sub("_", name).strip(".") or "_"
    if plain == name and len(name) <= 100:
        return name
    return f"{plain[:80]}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"
