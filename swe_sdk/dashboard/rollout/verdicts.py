"""The required tests of a rollout, one by one, with the lines of the log that prove what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from swe_sdk.dashboard.components import card, empty, notice, pager, stats, tabs
from swe_sdk.dashboard.escape import Child, Html, cut, el, join, plain
from swe_sdk.dashboard.forms import filter_form, search_field
from swe_sdk.dashboard.rollout.proof import MOST_BYTES, LogText, Proof
from swe_sdk.dashboard.rollout.subject import Subject
from swe_sdk.dashboard.show import count, pill
from swe_sdk.errors import SweError
from swe_sdk.store.rows import ArtifactRow

_ROWS = 100
_PASSING = ("PASSED", "XFAIL")
_PROVED = 10
"""So many tests that do not pass are shown with their proof without being asked."""
_LONGEST = 600
_LABELS = {"fail_to_pass": "to be fixed", "pass_to_pass": "to stay as it was"}


class _Test(NamedTuple):
    tests: str
    name: str
    status: str

    @property
    def passes(self) -> bool:
        return self.status in _PASSING


def verdicts_tab(subject: Subject) -> Html:
    """All of it, those that do not pass first."""
    outcome = subject.outcome
    if outcome is None:
        return empty("Not graded", "Tests have verdicts once the attempt's patch was graded.")
    every = [_Test("fail_to_pass", *each) for each in outcome.tests.fail_to_pass.items()]
    every += [_Test("pass_to_pass", *each) for each in outcome.tests.pass_to_pass.items()]
    if not every:
        return empty("No verdicts", "The attempt was masked before any test had one: the overview says why.")
    every.sort(key=lambda test: (test.passes, test.tests, test.name))
    state = subject.context.state
    which = state.get("show", "all", ("all", "bad", "fail_to_pass", "pass_to_pass"))
    words = state.get("name").lower()
    chosen = [test for test in every if _is_shown(test, which) and words in test.name.lower()]
    first = (state.page - 1) * _ROWS
    rows = [_row(subject, *each) for each in _with_proofs(subject, chosen[first : first + _ROWS])]
    body = el("div", rows or el("p", "no test is like that", cls="dim"), cls="verdicts")
    head = el("div", _menu(subject, every, which), _search(subject), cls="toolbar")
    return join(_numbers(every), head, body, pager(subject.context, len(chosen), page_rows=_ROWS, what="tests"))


def _is_shown(test: _Test, which: str) -> bool:
    return which == "all" or which == test.tests or (which == "bad" and not test.passes)


def _numbers(tests: Sequence[_Test]) -> Html:
    pairs: list[tuple[str, Child]] = []
    for name, label in _LABELS.items():
        among = [test for test in tests if test.tests == name]
        passed = sum(test.passes for test in among)
        pairs.append((label, [f"{count(passed)}", el("small", f" of {count(len(among))} pass")]))
    found = Counter(test.status for test in tests if not test.passes)
    pairs += [(status, count(number)) for status, number in found.most_common()]
    return card(None, stats(*pairs))


def _menu(subject: Subject, tests: Sequence[_Test], which: str) -> Html:
    bad = sum(not test.passes for test in tests)
    names: list[tuple[str, Child]] = [("all", ["all", el("small", count(len(tests)))])]
    names += [("bad", ["not passing", el("small", count(bad))]), *_LABELS.items()]
    return tabs(subject.context, names, which, field="show")


def _search(subject: Subject) -> Html:
    field = search_field(subject.context, "part of a test's name", field="name")
    return filter_form(subject.context, field, names=("name",), key="test-search")


# -- proofs ----------------------------------------------------------------------------------------------------------


def _with_proofs(subject: Subject, tests: Sequence[_Test]) -> list[tuple[_Test, Proof | None]]:
    """Proofs of the first that do not pass, and of the one that was asked for."""
    asked = subject.context.state.get("test")
    wanted = {test.name for test in [test for test in tests if not test.passes][:_PROVED]} | {asked}
    log = subject.test_log
    if log is None or not any(test.name in wanted for test in tests):
        return [(test, None) for test in tests]
    try:
        text = _read(subject, log)
    except (SweError, OSError):  # the page says so where the log itself is looked at
        return [(test, None) for test in tests]
    return [(test, text.proof(test.name, test.status) if test.name in wanted else None) for test in tests]


def _read(subject: Subject, log: ArtifactRow) -> LogText:
    with subject.context.index.open_artifact(log) as file:
        start = max(0, file.size - MOST_BYTES)
        first = file.line_of(start) if start else 0
        return LogText(file.read_window(start, MOST_BYTES), first)


def _row(subject: Subject, test: _Test, proof: Proof | None) -> Html:
    context = subject.context
    ask = None
    if proof is None and subject.test_log is not None:
        ask = context.link("in the log", cls="quiet", page=context.state.page, test=test.name)
    elif proof is not None and proof.lines:
        ask = _place(subject, proof)
    kind = el("span", _LABELS[test.tests], cls="dim small")
    head = el("div", pill("test", test.status), el("code", cut(test.name, _LONGEST)), kind, ask, cls="verdict-head")
    return el("div", head, _proof(subject, test, proof) if proof is not None else None, cls="verdict", key=test.name)


def _place(subject: Subject, proof: Proof) -> Html:
    """Where in the log it stands: of a failure, where its block begins."""
    log = subject.test_log
    assert log is not None
    number = (proof.block or proof.lines)[0][0] + 1
    label = f"line {number:,} of {cut(log.name, 60)}"
    return el("a", label, href=_at_line(subject, log, number), cls="small")


def _at_line(subject: Subject, log: ArtifactRow, number: int) -> str:
    return subject.context.href(tab="files", file=log.name, line=number, test=None, show=None, name=None)


def _proof(subject: Subject, test: _Test, proof: Proof) -> Html:
    log = subject.test_log
    assert log is not None
    if not proof.lines:
        where = subject.context.href(tab="files", file=log.name, end="1", test=None)
        why = "The log does not name it. " if test.status == "MISSING" else "Its name is not in the log as it stands. "
        return notice(why, el("a", "look at the end of the log", href=where), kind="info")
    shown = sorted({*proof.lines, *proof.block})
    lines: list[Html] = []
    for before, (number, text) in zip([None, *shown], shown, strict=False):
        if before is not None and number > before[0] + 1:
            lines.append(el("div", el("span", "⋯", cls="n"), cls="l gap"))
        lines.append(_line(subject, log, number, text))
    return el("div", lines, cls="text proof")


def _line(subject: Subject, log: ArtifactRow, number: int, text: str) -> Html:
    where = _at_line(subject, log, number + 1)
    return el("div", el("a", f"{number + 1:,}", href=where), el("code", plain(text)[:_LONGEST]), cls="l")
