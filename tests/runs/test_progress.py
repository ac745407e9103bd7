"""Progress on a terminal, in a notebook and in a pipe."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from swe_sdk.model.outcome import Mask
from swe_sdk.runs import progress
from swe_sdk.runs.progress import run_progress

LOST = Mask(kind="sandbox_lost", stage="tests", reason="\x1b[31mgone")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def feed(bar: progress.Progress) -> None:
    bar.add("resolved", None)
    bar.say("\x1b]0;title\x07<b>building</b>")
    bar.add("masked", LOST)
    bar.add("unresolved", None)


def test_terminal_shows_live_counts_and_no_escape_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "dumb")
    with run_progress(5, kept={"resolved": 1}) as bar:
        feed(bar)
    shown = screen.getvalue()
    assert "4/5 rollouts" in shown
    assert "2 resolved" in shown
    assert "1 unresolved" in shown
    assert "1 masked (sandbox_lost 1)" in shown
    assert "\x1b]0;" not in shown


def test_pipe_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with run_progress(3) as bar:
        feed(bar)
    assert capsys.readouterr().err == "", "a short run says nothing into a pipe"
    monkeypatch.setattr(progress, "_PIPE_EVERY_S", 0.0)
    with run_progress(3) as bar:
        feed(bar)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("swe_sdk: 3/3 rollouts, 1 resolved, 1 unresolved, 1 masked (sandbox_lost 1), ")
    assert len(lines) == 3


def test_silent_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with run_progress(3, enabled=False) as bar:
        feed(bar)
    assert capsys.readouterr() == ("", "")


def test_notebook_shows_one_table_and_updates_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []

    class Handle:
        def update(self, bundle: dict[str, str], *, raw: bool) -> None:
            assert raw
            shown.append(bundle)

    def display(bundle: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw
        assert display_id
        shown.append(bundle)
        return Handle()

    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    monkeypatch.setattr(progress, "_NOTEBOOK_EVERY_S", 0.0)
    monkeypatch.setattr(progress, "import_module", lambda _: type("module", (), {"display": staticmethod(display)}))
    with run_progress(3) as bar:
        feed(bar)
    assert len(shown) == 6
    assert "&lt;b&gt;building" in shown[2]["text/html"]
    assert "<td>1 masked (sandbox_lost 1)</td>" in shown[-1]["text/html"]
    assert "building" not in shown[-1]["text/html"], "what went on is over"
    assert shown[-1]["text/plain"].startswith("3/3 rollouts")
