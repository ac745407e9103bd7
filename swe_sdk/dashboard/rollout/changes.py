"""The patch, file by file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from swe_sdk.dashboard.components import empty, notice, problem
from swe_sdk.dashboard.escape import Html, cut, el, join, plain
from swe_sdk.dashboard.rollout.subject import Subject
from swe_sdk.dashboard.show import count, size
from swe_sdk.errors import SweError
from swe_sdk.model.diff import patched_files

_MOST_BYTES = 1 << 20
_MOST_LINES = 4000
_LONGEST = 1000
_SAID_ALREADY = ("diff --git ", "index ", "--- ", "+++ ")
"""Lines above the first hunk that the title says as well."""
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,\d+)? \+(\d{1,9})(?:,\d+)? @@")


def changes_tab(subject: Subject) -> Html:
    """What the agent changed, as a diff; the beginning of it where it is long."""
    artifact = subject.patch
    if artifact is None:
        return empty("No patch", "The patch is taken when the agent has ended: this attempt has none (yet).")
    try:
        with subject.context.index.open_artifact(artifact) as file:
            data, whole = file.read_window(0, _MOST_BYTES), file.size
    except (SweError, OSError) as error:
        return problem("The patch cannot be read", str(error), "Its rollout directory may have been cleaned.")
    if not data.strip():
        return empty("The patch is empty", "The agent left the repository as it was.")
    text = data.decode("utf-8", "replace")
    parts = _split(text)
    shown = [_file(number, part) for number, part in enumerate(parts[:200])]
    lines = text.count("\n")
    is_cut = whole > len(data) or lines > _MOST_LINES
    where = subject.context.href(tab="files", file=artifact.name)
    more = notice("Only the beginning is shown. ", el("a", "look at the whole file", href=where)) if is_cut else None
    names = {name for file in patched_files(data) for name in file.paths}
    added, gone = _counts(text.splitlines())
    told = el("p", f"{count(len(names))} files, ", _amounts(added, gone), f", {size(whole)}", cls="dim")
    return join(told, more, shown)


def _split(text: str) -> list[list[str]]:
    """Lines of each file, within the limit."""
    lines = text.splitlines()[:_MOST_LINES]
    starts = [number for number, line in enumerate(lines) if line.startswith("diff --git ")] or [0]
    if starts[0] != 0:
        starts.insert(0, 0)
    return [lines[start:end] for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]


def _file(number: int, lines: Sequence[str]) -> Html:
    body, numbers = [], (0, 0)
    for line in lines:
        if numbers == (0, 0) and line.startswith(_SAID_ALREADY):
            continue
        shown, numbers = _line(line, numbers)
        body.append(shown)
    added, gone = _counts(lines)
    title = el("summary", el("code", _title(lines)), " ", _amounts(added, gone))
    return el("details", title, el("div", body, cls="text diff"), cls="card file", open=True, key=f"file-{number}")


def _title(lines: Sequence[str]) -> str:
    for line in lines:
        if line.startswith("+++ ") and line != "+++ /dev/null":
            return cut(line[4:].removeprefix("b/"), 200)
        if line.startswith("@@"):
            break
    return cut(lines[0].removeprefix("diff --git "), 200) if lines else ""


def _counts(lines: Sequence[str]) -> tuple[int, int]:
    added = sum(line.startswith("+") and not line.startswith("+++ ") for line in lines)
    return added, sum(line.startswith("-") and not line.startswith("--- ") for line in lines)


def _amounts(added: int, gone: int) -> Html:
    return el("span", el("b", f"+{added:,}", cls="plus"), " ", el("b", f"-{gone:,}", cls="minus"))


def _line(line: str, numbers: tuple[int, int]) -> tuple[Html, tuple[int, int]]:
    """A line with its numbers in the old and the new file; and those of the next one."""
    old, new = numbers
    hunk = _HUNK.match(line)
    if hunk is not None:
        return _shown("hunk", "", "", line), (int(hunk[1]), int(hunk[2]))
    if not old and not new:
        return _shown("hunk", "", "", line), numbers
    if line.startswith("+"):
        return _shown("add", "", str(new), line), (old, new + 1)
    if line.startswith("-"):
        return _shown("del", str(old), "", line), (old + 1, new)
    if line.startswith("\\"):
        return _shown("hunk", "", "", line), numbers
    return _shown("", str(old), str(new), line), (old + 1, new + 1)


def _shown(kind: str, old: str, new: str, line: str) -> Html:
    both = (el("span", old, cls="n"), el("span", new, cls="n"))
    return el("div", *both, el("code", plain(line)[:_LONGEST] or " "), cls=f"l {kind}".rstrip())
