"""Names in the order of a directory."""

from .folding import fold
from .index import build_index, sort_names
from .layout import columns

__all__ = ["build_index", "columns", "fold", "sort_names"]
