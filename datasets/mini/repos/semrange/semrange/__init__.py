"""Semantic versions and ranges of them."""

from .range import Range, RangeError, max_satisfying
from .version import Version, VersionError

__all__ = ["Range", "RangeError", "Version", "VersionError", "max_satisfying"]
