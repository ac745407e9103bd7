"""The files of an attempt, and a viewer for texts of any size: a window of them at a time."""

from __future__ import annotations

import re
from functools import partial

from swe_sdk.dashboard.components import Column, card, copy_button, empty, notice, problem, table
from swe_sdk.dashboard.downloads import file_query
from swe_sdk.dashboard.escape import Child, Html, cut, el, join, plain
from swe_sdk.dashboard.forms import filter_form
from swe_sdk.dashboard.rollout.subject import Subject
from swe_sdk.dashboard.rollout.window import WINDOW, Window, window_of
from swe_sdk.dashboard.show import count, size
from swe_sdk.errors import SweError
from swe_sdk.store.rows import ArtifactRow
from swe_sdk.store.windows import TextLine

_LONGEST = 2000
_PLACES = ("line", "byte", "end", "from")
_CLEARED = dict.fromkeys((*_PLACES, "find", "case"))


def files_tab(subject: Subject) -> Html:
    """A list, and the one that was chosen."""
    if not subject.artifacts:
        return empty("No files", "This attempt has left none (yet): logs, patches and transcripts appear as they come.")
    chosen = subject.context.state.get("file")
    artifact = subject.artifact(chosen) if chosen else subject.test_log or subject.artifacts[0]
    if artifact is None:
        shown = problem("There is no such file", f"This attempt has no file {cut(chosen, 200)!r}.", "Choose one above.")
    else:
        shown = _viewer(subject, artifact)
    return join(_list(subject, artifact), shown)


def pulse(subject: Subject) -> object:
    """The size of the file that is looked at, while it is being written: bytes are no events."""
    state = subject.context.state
    if state.tab != "files":
        return None
    artifact = subject.artifact(state.get("file")) if state.get("file") else subject.test_log
    if artifact is None or not artifact.is_open:
        return None
    try:
        with subject.context.index.open_artifact(artifact) as file:
            return file.size
    except (SweError, OSError):  # gone, or not there yet
        return None


def _list(subject: Subject, chosen: ArtifactRow | None) -> Html:
    columns: list[Column[ArtifactRow]] = [
        Column("file", lambda row: el("code", cut(row.name, 120)), cls="grow"),
        Column("what", lambda row: row.role),
        Column("size", lambda row: size(row.size_bytes), cls="num"),
        Column("on disk", lambda row: _stored(row), cls="num"),
        Column("", lambda row: _download(row)),
    ]
    shown = table(
        subject.context,
        columns,
        subject.artifacts,
        key=lambda row: f"file-{row.name}",
        href=lambda row: subject.context.href(file=row.name, **_CLEARED),
        label="files",
    )
    one = len(subject.artifacts) > 6 and chosen is not None
    told = el("summary", f"{count(len(subject.artifacts))} files of attempt {subject.attempt}")
    return el("details", told, shown, cls="card fold", open=not one, key="files")


def _stored(row: ArtifactRow) -> Child:
    if row.is_open:
        return el("span", "being written", cls="dim")
    return size(row.stored_bytes) if row.encoding == "gzip" else ""


def _download(row: ArtifactRow) -> Html:
    return el("a", "download", href=f"files/raw?{file_query(row)}", download=True, cls="quiet")


# -- the viewer ------------------------------------------------------------------------------------------------------


def _viewer(subject: Subject, artifact: ArtifactRow) -> Html:
    try:
        with subject.context.index.open_artifact(artifact) as file:
            window = window_of(file, subject.context.state)
    except (SweError, OSError) as error:
        what = f"{artifact.name}: {error}"
        remedy = "The journal says that it was written. It was deleted since, or the disk cannot be read."
        return problem("This file cannot be read", what, remedy)
    bar = el("div", *_tools(subject, artifact, window), cls="toolbar")
    if not window.lines:
        return card(artifact.name, bar, empty("It is empty", "Nothing was written to it (yet)."), cls="wide")
    lines = [_line(subject, artifact, window, line) for line in window.lines]
    body = el("div", lines, cls="text log", key=f"text-{artifact.name}", tabindex=0, aria_label=artifact.name)
    return card(el("code", cut(artifact.name, 120)), bar, _missing(window), body, note=_told(window), cls="wide")


def _told(window: Window) -> str:
    first, last = window.first + 1, window.next_first
    return f"lines {first:,} to {last:,}{', to the end' if window.is_end else ''}; {size(window.size)}"


def _missing(window: Window) -> Html | None:
    if not window.is_missing:
        return None
    return notice(f"{cut(window.find, 80)!r} is not in it from there on.", kind="warn")


def _tools(subject: Subject, artifact: ArtifactRow, window: Window) -> list[Child]:
    context, state = subject.context, subject.context.state
    goto = partial(context.href, file=artifact.name)
    nothing = dict.fromkeys(_PLACES)
    earlier, later = max(1, window.first + 1 - WINDOW // 2), window.next_first + WINDOW // 4
    links: list[Child] = [
        _jump("start", goto(**{**nothing, "find": None}), window.first > 0),
        _jump("← earlier", goto(**{**nothing, "line": earlier}), window.first > 0, "["),
        _jump("later →", goto(**{**nothing, "line": later}), not window.is_end, "]"),
        _jump("end", goto(**{**nothing, "end": 1}), not window.is_end),
    ]
    follow: Child = None
    if window.find:
        after = window.found_at + 1 if window.found_at is not None else 0
        again = goto(**{**nothing, "from": after})
        follow = el("a", "next match" if window.found_at is not None else "from the start", href=again, cls="button")
    find = el(
        "input",
        type="search",
        name="find",
        value=state.get("find"),
        placeholder="find in the file",
        aria_label="find in the file",
        data_shortcut="/",
        autocomplete="off",
        spellcheck="false",
    )
    box = el("input", type="checkbox", name="case", value="1", checked=not window.ignore_case)
    case = el("label", box, el("span", "Aa"), cls="one-of", title="capital letters matter")
    search = el("span", find, case, data_enter=True, cls="one-of")
    number = el("input", type="text", inputmode="numeric", name="line", placeholder="line", aria_label="go to line")
    offset = el("input", type="text", inputmode="numeric", name="byte", placeholder="byte", aria_label="go to byte")
    jump = el("span", number, offset, el("input", type="submit", hidden=True), data_enter=True, data_clear=True)
    kept = ("find", "case", *_PLACES)
    return [
        filter_form(context, search, names=kept, key="find"),
        follow,
        filter_form(context, jump, names=_PLACES, key="jump"),
        el("span", links, cls="jumps"),
        copy_button(_python(subject, artifact, window), "copy as Python"),
    ]


def _jump(label: str, href: str, is_possible: bool, shortcut: str | None = None) -> Html:
    return el("a", label, href=href, data_shortcut=shortcut) if is_possible else el("span", label, cls="off")


def _line(subject: Subject, artifact: ArtifactRow, window: Window, line: TextLine) -> Html:
    number = line.number or 0
    where = subject.context.href(file=artifact.name, **{**dict.fromkeys(_PLACES), "line": number + 1})
    text = plain(line.text)
    rest = len(text) - _LONGEST
    shown = [*_marked(text[:_LONGEST], window), el("i", f" … {rest:,} characters more") if rest > 0 else None]
    is_here = number == window.here
    name = el("a", f"{number + 1:,}", href=where, title=f"byte {line.offset:,}", tabindex=-1)
    return el("div", name, el("code", shown), cls=f"l{' here' if is_here else ''}", data_here=is_here)


def _marked(text: str, window: Window) -> list[Child]:
    """The text, with what was looked for marked."""
    if not window.find:
        return [text]
    found = re.split(f"({re.escape(window.find)})", text, flags=re.IGNORECASE if window.ignore_case else 0)
    return [el("mark", part) if number % 2 else part for number, part in enumerate(found)]


def _python(subject: Subject, artifact: ArtifactRow, window: Window) -> str:
    run = subject.context.index.run(subject.row.run)
    first = max(0, window.here - 5) if window.here is not None else window.first
    return (
        "import swe_sdk as swe\n\n"
        f"rollout = swe.open_run({run.path!r}).rollouts[{subject.row.rollout_id!r}]\n"
        f"log = rollout.logs_of({subject.attempt})[{artifact.name!r}]\n"
        f'print("\\n".join(log.lines({first}, 40)))\n'
    )
