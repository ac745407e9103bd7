"""Progress on a terminal, in a notebook, and nowhere else."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk import progress
from swe_sdk.notebook import progress as pictures
from swe_sdk.notebook import steps as step_lines
from swe_sdk.progress import Progress, Tally, clock, shown_progress, shown_steps
from tests.notebook.kernel import ROOT


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def feed(bar: Progress) -> None:
    bar.add("resolved")
    bar.say("\x1b]0;title\x07<b>building</b>")
    bar.add("masked", "sandbox_lost")
    bar.add("unresolved")


def test_a_terminal_shows_live_counts_and_no_escape_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "dumb")
    with shown_progress(5, "rollouts", kept={"resolved": 1}) as bar:
        feed(bar)
    shown = " ".join(screen.getvalue().split())  # a dumb terminal is narrow
    assert "4/5 rollouts" in shown
    assert "2 resolved" in shown
    assert "1 unresolved" in shown
    assert "1 masked (sandbox_lost 1)" in shown
    assert "\x1b]0;" not in shown


def test_a_second_one_on_the_same_terminal_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    monkeypatch.setenv("TERM", "dumb")
    with shown_progress(5, "rollouts"), shown_progress(7, "patches") as second:
        feed(second)
    assert "/5 rollouts" in screen.getvalue()
    assert "/7 patches" not in screen.getvalue()
    with shown_progress(7, "patches"):
        pass
    assert "/7 patches" in screen.getvalue(), "the terminal is free again"


PROGRAM = """
from swe_sdk.progress import shown_progress
with shown_progress(500, "rollouts") as bar:
    for n in range(500):
        bar.say(f"step {n}")
        bar.add("resolved")
"""


def test_a_log_file_gets_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, cwd=ROOT, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_real_terminal_gets_one_line_in_the_end() -> None:
    ours, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": "150", "TERM": "xterm"}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=theirs, stdout=theirs, cwd=ROOT, env=env) as child:
        os.close(theirs)
        seen = b""
        try:
            while piece := os.read(ours, 1 << 16):
                seen += piece
        except OSError:
            pass  # the terminal has no other end any more
        os.close(ours)
    assert child.returncode == 0
    assert b"500/500 rollouts" in seen
    assert seen.count(b"\n") <= 3, "it is one line, written over"


def test_silent_says_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "looked_at", lambda: "terminal")
    with shown_progress(3, "rollouts", enabled=False) as bar:
        feed(bar)
    assert capsys.readouterr() == ("", "")


class Page:
    """A front end that keeps what it was shown."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def display(self, bundle: dict[str, str], *, raw: bool, display_id: bool) -> Page:
        assert raw
        assert display_id
        self.shown.append(bundle)
        return self

    def update(self, bundle: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(bundle)


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Page:
    page = Page()
    monkeypatch.setattr(progress, "looked_at", lambda: "notebook")
    monkeypatch.setattr(pictures, "import_module", lambda _name: page)
    return page


def test_a_notebook_shows_one_picture_and_updates_it(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "_NOTEBOOK_EVERY_S", 0.0)
    with shown_progress(3, "rollouts") as bar:
        feed(bar)
    assert len(page.shown) == 6
    assert "&lt;b&gt;building" in page.shown[2]["text/html"]
    assert "masked: sandbox_lost 1" in page.shown[-1]["text/html"]
    assert "3 of 3 rollouts" in page.shown[-1]["text/html"]
    assert "building" not in page.shown[-1]["text/html"], "what went on is over"
    assert page.shown[-1]["text/plain"].startswith("3/3 rollouts, 1 resolved, 1 unresolved, 1 masked (sandbox_lost 1)")


def test_a_notebook_is_not_flooded_and_says_where_it_stopped(page: Page) -> None:
    def work() -> None:
        with shown_progress(500, "patches") as bar:
            for _ in range(400):
                bar.add("resolved")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert len(page.shown) <= 4
    assert "400 of 500 patches" in page.shown[-1]["text/html"]
    assert "stopped" in page.shown[-1]["text/html"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("Thread") and not thread.daemon]


# -- steps of a build --------------------------------------------------------------------------------------------------


def test_steps_are_a_line_that_says_how_long_it_took(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_lines, "import_module", lambda _name: page)
    monkeypatch.setattr(step_lines, "_EVERY_S", 0.0)
    with shown_steps() as say:
        assert page.shown == [], "what is ready already says nothing"
        assert say is not None
        say("fetching <b>\x1b[31m")
        say("freezing")
    assert [each["text/plain"] for each in page.shown[:2]] == [
        "environment: fetching <b>␛[31m",
        "environment: freezing",
    ]
    assert page.shown[-1]["text/plain"].startswith("environment: took ")
    assert "<b>" not in page.shown[0]["text/html"]


def test_steps_of_a_build_that_failed_end_with_the_last_one(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_lines, "import_module", lambda _name: page)

    def build() -> None:
        with shown_steps() as say:
            assert say is not None
            say("installing")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        build()
    assert page.shown[-1]["text/plain"].startswith("environment: installing, after ")


def test_steps_on_a_terminal_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with shown_steps() as say:
        assert say is not None
        say("installing")
        say("freezing \x1b]0;title\x07")
    assert "freezing" in screen.getvalue()
    assert "\x1b]0;" not in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K"), "the line is erased"
    with shown_progress(1, "patches"):
        pass
    assert "0/1 patches" in screen.getvalue(), "the terminal is free again"


def test_steps_go_to_whom_the_caller_named_and_else_nowhere() -> None:
    said: list[str] = []
    with shown_steps(said.append) as say:
        assert say is not None
        say("freezing")
    assert said == ["freezing"]
    with shown_steps() as say:
        assert say is None, "nobody looks"


def test_time_goes_on_while_nothing_happens(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "_TICK_S", 0.02)
    ticked = threading.Event()
    update = page.update

    def tell(bundle: dict[str, str], *, raw: bool) -> None:
        update(bundle, raw=raw)
        ticked.set()

    monkeypatch.setattr(page, "update", tell)
    with shown_progress(3, "rollouts"):
        assert ticked.wait(10)


def test_what_is_left_is_an_estimate_of_this_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    tally = Tally(10, "rollouts", {"resolved": 2})
    bar = Progress(tally)
    now[0] = 110.0
    bar.add("resolved")
    assert tally.left_s is None, "one alone says nothing"
    bar.add("unresolved")
    assert (tally.done, tally.left_s, tally.times) == (4, 30.0, "0:10, about 0:30 left")


@given(st.floats(0, 1e7))
def test_a_clock_reads_as_clocks_do(seconds: float) -> None:
    parts = [int(part) for part in clock(seconds).split(":")]
    assert all(part < 60 for part in parts[1:])
    assert sum(part * 60**place for place, part in enumerate(reversed(parts))) == int(seconds)


def test_all_use_the_one_protocol() -> None:
    """Nothing else of this package draws progress."""
    for name in ("tqdm", "rich.live", "rich.progress", "rich.status"):
        found = [path for path in (ROOT / "swe_sdk").rglob("*.py") if f"from {name}" in path.read_text()]
        assert {path.relative_to(ROOT).as_posix() for path in found} <= {
            "swe_sdk/notebook/progress.py",
            "swe_sdk/notebook/steps.py",
        }, name
