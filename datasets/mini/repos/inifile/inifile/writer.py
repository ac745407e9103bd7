"""Write a configuration file."""

from __future__ import annotations

from .config import Config


def dumps(config: Config) -> str:
    """The text of ``config``, which ``loads`` reads back as the same values."""
    lines: list[str] = []
    for section in config.sections():
        if lines:
            lines.append("")
        lines.append(f"[{section}]")
        for key, value in config.items(section):
            text = "\n    ".join(_quoted(line) for line in value.split("\n"))
            lines.append(f"{key} = {text}".rstrip())
    return "\n".join(lines) + "\n" if lines else ""


def _quoted(value: str) -> str:
    if value == value.strip() and not value.startswith(('"', "'")) and not any(mark in value for mark in ";#"):
        return value
    quote = "'" if '"' in value else '"'
    if quote in value:
        raise ValueError(f"cannot write a value with both kinds of quotes: {value!r}")
    return f"{quote}{value}{quote}"
