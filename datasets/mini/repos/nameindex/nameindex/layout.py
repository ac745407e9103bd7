"""Print an index."""

from __future__ import annotations


def columns(index: dict[str, list[str]], width: int = 24, count: int = 2) -> str:
    """The index as text in ``count`` columns, read from top to bottom."""
    if width < 4 or count < 1:
        raise ValueError("columns need a width of 4 or more, and there must be one at least")
    lines: list[str] = []
    for heading, names in index.items():
        lines.append(heading)
        lines.extend("  " + _shorten(name, width - 3) for name in names)
    height = -(-len(lines) // count)
    rows = (lines[row::height] for row in range(height))
    return "\n".join("".join(cell.ljust(width) for cell in row).rstrip() for row in rows)


def _shorten(name: str, width: int) -> str:
    return name if len(name) <= width else name[: max(width - 1, 0)] + "."
