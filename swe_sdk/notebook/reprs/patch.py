"""A patch as a coloured diff, one fold a file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from swe_sdk.model.diff import patched_files, skip_hunk
from swe_sdk.model.patch import Patch
from swe_sdk.notebook.amounts import many, size
from swe_sdk.notebook.blocks import Block, Diff, Facts, Fold, Folds, Pre, View, Word

_OPEN_FILES, _OPEN_LINES = 3, 80
"""Small patches stand open."""
_SHOWN_BYTES = 1 << 20
"""Of a larger one only the beginning is read for show."""


def patch_view(patch: Patch) -> View:
    """Counts, then the files."""
    title = (Word("Patch", "strong"), f" {many(len(patch.files), 'file')}, {size(len(patch))}")
    facts = Facts((("sha256", Word(patch.sha256[:12], "code")), ("repaired", ", ".join(patch.repairs))))
    return View(title if patch.exists else (Word("Patch", "strong"), " empty"), (facts, *patch_blocks(patch)))


def patch_blocks(patch: Patch) -> tuple[Block, ...]:
    """The files within the view of something else."""
    if not patch.exists:
        return ()
    lines = patch.data[:_SHOWN_BYTES].removesuffix(b"\n").split(b"\n")
    starts = list(_starts(lines))
    if not starts:
        return (Pre(patch.data[:_SHOWN_BYTES].decode("utf-8", "replace")),)
    parts = [lines[start:end] for start, end in pairwise((*starts, len(lines)))]
    stands_open = len(parts) <= _OPEN_FILES and len(lines) <= _OPEN_LINES
    cut = (Facts((("left out", f"all beyond {size(_SHOWN_BYTES)}"),)),) if len(patch) > _SHOWN_BYTES else ()
    return (Folds([_fold(part, is_open=stands_open) for part in parts], "file"), *cut)


def _starts(lines: list[bytes]) -> Iterator[int]:
    """Where each file begins. Lines of hunks are counted, so that none of them is taken for a header."""
    at, in_header = 0, False
    while at < len(lines):
        if lines[at].startswith(b"diff --git "):
            yield at
            at, in_header = at + 1, True
        elif lines[at].startswith(b"@@ "):
            at, in_header = skip_hunk(lines, at), False
        elif lines[at].startswith(b"--- ") and lines[at + 1 : at + 2] and lines[at + 1].startswith(b"+++ "):
            if not in_header:
                yield at
            at, in_header = at + 2, False
        else:
            at += 1


def _fold(data: list[bytes], *, is_open: bool) -> Fold:
    lines = [line.decode("utf-8", "replace") for line in data]
    first_hunk = next((at for at, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
    added, removed = (sum(line.startswith(sign) for line in lines[first_hunk:]) for sign in "+-")
    counts = Word(f" {_change(lines[:first_hunk])}+{added} -{removed}", "muted")
    return Fold((Word(_name(data, lines[0]), "code"), counts), (Diff(lines, first_hunk),), is_open)


def _name(data: list[bytes], first_line: str) -> str:
    """The name of the file after the change, for show; of a deleted one the name that it had."""
    files = patched_files(b"\n".join(data))
    name = None if not files else files[0].new if files[0].new is not None else files[0].old
    return first_line if name is None else name.decode("utf-8", "replace")


def _change(header: list[str]) -> str:
    kinds = (("new file mode", "new "), ("deleted file mode", "deleted "), ("rename to ", "renamed "))
    return next((word for sign, word in kinds if any(line.startswith(sign) for line in header)), "")
