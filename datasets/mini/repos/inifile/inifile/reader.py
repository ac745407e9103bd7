"""Read a configuration file."""

from __future__ import annotations

import re

from .config import Config
from .errors import IniError

_SECTION = re.compile(r"\[\s*([^\]]+?)\s*\]\s*(?:[;#].*)?")
_QUOTES = "\"'"


def loads(text: str) -> Config:
    """Read ``text``; the line of a problem is in the ``IniError``."""
    config = Config()
    section: str | None = None
    last: tuple[str, str] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip()[0] in ";#":
            continue
        if line[0].isspace() and last is not None:
            config.set(*last, f"{config.get(*last)}\n{_value(line)}".strip())
            continue
        match = _SECTION.fullmatch(line.strip())
        if match is not None:
            section, last = match[1], None
            config.add_section(section)
            continue
        key, equals, raw = line.partition("=")
        if not equals or not key.strip():
            raise IniError("expected 'key = value'", number)
        if section is None:
            raise IniError("a key before the first section", number)
        last = (section, key.strip())
        config.set(*last, _value(raw))
    return config


def _value(raw: str) -> str:
    return _unquote(_strip_comment(raw).strip())


def _strip_comment(raw: str) -> str:
    return re.split("[;#]", raw, maxsplit=1)[0]


def _unquote(value: str) -> str:
    if len(value) >= 2 and value[0] in _QUOTES and value[-1] == value[0]:
        return value[1:-1]
    return value
