"""What a file says."""

from __future__ import annotations

from collections.abc import Iterator

_WORDS = {"yes": True, "true": True, "on": True, "1": True, "no": False, "false": False, "off": False, "0": False}


class Config:
    """Sections of keys and values, in the order of the file."""

    def __init__(self) -> None:
        self._sections: dict[str, dict[str, str]] = {}

    def set(self, section: str, key: str, value: str) -> None:
        self._sections.setdefault(section.lower(), {})[key.lower()] = value

    def add_section(self, section: str) -> None:
        self._sections.setdefault(section.lower(), {})

    def get(self, section: str, key: str, default: str | None = None) -> str | None:
        return self._sections.get(section.lower(), {}).get(key.lower(), default)

    def get_bool(self, section: str, key: str, default: bool = False) -> bool:
        value = self.get(section, key)
        if value is None:
            return default
        try:
            return _WORDS[value.lower()]
        except KeyError:
            raise ValueError(f"[{section}] {key}: not a boolean: {value!r}") from None

    def get_list(self, section: str, key: str) -> list[str]:
        """The value split at commas and line breaks."""
        value = self.get(section, key) or ""
        return [item.strip() for item in value.replace("\n", ",").split(",") if item.strip()]

    def sections(self) -> list[str]:
        return list(self._sections)

    def items(self, section: str) -> Iterator[tuple[str, str]]:
        return iter(self._sections.get(section.lower(), {}).items())
