"""One version: ``major.minor.patch[-prerelease][+build]``."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

_VERSION = re.compile(
    r"(?P<major>\d+)(?:\.(?P<minor>\d+))?(?:\.(?P<patch>\d+))?"
    r"(?:-(?P<pre>[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
    r"(?:\+[0-9A-Za-z.-]+)?"
)


class VersionError(ValueError):
    """A text that is not a version."""


@functools.total_ordering
@dataclass(frozen=True)
class Version:
    major: int
    minor: int = 0
    patch: int = 0
    pre: tuple[int | str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Version:
        """Read a version; missing minor and patch numbers are zeros, build metadata is dropped."""
        match = _VERSION.fullmatch(text.strip())
        if match is None:
            raise VersionError(f"not a version: {text!r}")
        numbers = (int(match[name] or 0) for name in ("major", "minor", "patch"))
        parts = match["pre"].split(".") if match["pre"] else []
        return cls(*numbers, tuple(int(part) if part.isdigit() else part for part in parts))

    def __lt__(self, other: Version) -> bool:
        return self._key() < other._key()

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        return f"{text}-{'.'.join(map(str, self.pre))}" if self.pre else text

    def _key(self) -> tuple[object, ...]:
        # A release sorts after its pre-releases; numeric identifiers sort before words.
        pre = tuple((0, part, "") if isinstance(part, int) else (1, 0, part) for part in self.pre)
        return (self.major, self.minor, self.patch, not self.pre, pre)
