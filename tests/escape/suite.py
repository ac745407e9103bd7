"""Which attacks there are, read from the files of this folder without running them."""

from __future__ import annotations

import ast
from pathlib import Path

FOLDER = Path(__file__).parent


def attacks() -> dict[str, str]:
    """The topic of each attack (the name of its file between ``test_escape_`` and ``.py``), by its name."""
    found = {}
    for path in sorted(FOLDER.glob("test_escape_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("test_"):
                found[node.name.removeprefix("test_")] = path.stem.removeprefix("test_escape_")
    return found
