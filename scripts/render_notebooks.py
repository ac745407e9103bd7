"""Run the notebooks, and write them with their output as pages: ``notebooks/*.ipynb`` to ``docs/tutorials/*.md``.

A cell that fails ends it. Pages are plain Markdown, so that they ask no other host for scripts, and search finds them;
their pictures lie beside them. ``--no-run`` writes them without output: enough to build the other pages.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter
from nbconvert.preprocessors import ExecutePreprocessor

_ROOT = Path(__file__).resolve().parents[1]
_PAGES = _ROOT / "docs" / "tutorials"
_CELL_TIMEOUT_S = 300
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_TO_DOCS = "](../docs/"
_TO_NOTEBOOK = re.compile(r"(\]\(\w+)\.ipynb\)")


def main() -> None:
    """Render all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-run", dest="run", action="store_false", help="pages without output")
    run = parser.parse_args().run
    _PAGES.mkdir(exist_ok=True)
    for path in sorted((_ROOT / "notebooks").glob("*.ipynb")):
        page, (text, pictures) = _PAGES / f"{path.stem}.md", render(path, run=run)
        page.write_text(text, encoding="utf-8")
        for name, data in pictures.items():
            (_PAGES / name).write_bytes(data)
        print(page)


def render(path: Path, *, run: bool = True) -> tuple[str, dict[str, bytes]]:
    """The page of a notebook, run anew if it shall be, and its pictures by file name."""
    notebook = nbformat.read(path, as_version=4)
    if run:
        ExecutePreprocessor(timeout=_CELL_TIMEOUT_S).preprocess(notebook, {"metadata": {"path": str(path.parent)}})
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]  # progress bars
    text, resources = MarkdownExporter().from_notebook_node(notebook, {"unique_key": path.stem})
    text = _TO_NOTEBOOK.sub(r"\1.md)", _ESCAPES.sub("", text).replace(_TO_DOCS, "](../"))
    return text.replace(str(Path.home()), "~"), resources["outputs"]


if __name__ == "__main__":
    main()
