"""Glob patterns over paths that are only text."""

from .matcher import PatternSet, filter_paths, matches
from .translate import PatternError, translate

__all__ = ["PatternError", "PatternSet", "filter_paths", "matches", "translate"]
