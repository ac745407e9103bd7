"""The parts of pages that need no browser: markup, states, proofs, numbers."""

from __future__ import annotations

import re
import time
import tracemalloc
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.made_up_store import write_store
from swe_sdk.dashboard.components import bar, budget_bar
from swe_sdk.dashboard.escape import Html, cut, el, plain, text
from swe_sdk.dashboard.hub import Hub
from swe_sdk.dashboard.rollout.proof import LogText
from swe_sdk.dashboard.run_state import eta, state_of
from swe_sdk.dashboard.show import seconds, size
from swe_sdk.dashboard.state import State
from swe_sdk.errors import NoSpace
from swe_sdk.store.index import RunIndex
from swe_sdk.store.rows import RunRow

_FIELDS = st.dictionaries(st.sampled_from(("view", "rollout", "tab", "text", "sort")), st.text(min_size=1, max_size=20))
_LISTS = st.dictionaries(
    st.sampled_from(("run", "mask_kind", "family", "instance_id", "agent")),
    st.lists(st.text(min_size=1, max_size=20), unique=True, max_size=3).map(tuple),
)
_MORE = st.dictionaries(st.from_regex(r"[a-z]{2,6}_x", fullmatch=True), st.text(min_size=1, max_size=10), max_size=3)


class _Reader(HTMLParser):
    """What a browser makes of markup: elements, and text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def _read(markup: str) -> _Reader:
    reader = _Reader()
    reader.feed(markup)
    reader.close()
    return reader


@given(st.text(), st.text())
def test_whatever_is_written_stays_text(child: str, value: str) -> None:
    reader = _read(el("p", child, title=value))
    assert [tag for tag, _attributes in reader.tags] == ["p"]
    assert set(reader.tags[0][1]) == {"title"}
    assert "".join(reader.words) == _read(text(child)).words[0] if child else True


@pytest.mark.parametrize(
    ("tag", "attributes"),
    [
        ("script", {}),
        ("iframe", {}),
        ("img", {}),
        ("style", {}),
        ("a", {"onclick": "x"}),
        ("a", {"onClick": "x"}),
        ("a", {"on_click": "x"}),
        ("a", {"style": "x"}),
        ("a", {"href": "javascript:x"}),
        ("a", {"href": "//elsewhere"}),
        ("a", {"href": "https://elsewhere"}),
        ("a", {"href": " ?x"}),
        ("form", {"action": "https://elsewhere"}),
        ("button", {"formaction": "?x"}),
        ("a", {"x onclick": "y"}),
    ],
)
def test_what_runs_or_leaves_cannot_be_made(tag: str, attributes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"a page has no|no attribute|a link of a page"):
        el(tag, **attributes)


def test_only_markup_is_taken_as_such() -> None:
    inner = el("b", "x")
    assert el("p", inner, [None, False, 3, "<"]) == "<p><b>x</b>3&lt;</p>"
    assert isinstance(inner, Html)
    assert not isinstance(inner + "<script>", Html), "what is added to markup is text again"
    assert el("p", inner + "<script>") == "<p>&lt;b&gt;x&lt;/b&gt;&lt;script&gt;</p>"


def test_terminals_sequences_are_left_out_of_texts() -> None:
    assert plain("\x1b[1;31mred\x1b[0m \x1b]0;title\x07x\x1b(B") == "red x"
    assert cut("a\n\x1b[2Jb " + "c" * 300, 10) == "a b ccccc…"


@given(_FIELDS, _LISTS, _MORE, st.integers(1, 9999), st.one_of(st.none(), st.integers(1, 99)))
def test_a_state_is_its_link(
    words: dict[str, str], lists: dict[str, tuple[str, ...]], more: dict[str, str], page: int, attempt: int | None
) -> None:
    fields: dict[str, Any] = {"view": "x", **words, **lists, "more": more, "page": page, "attempt": attempt}
    state = State(**fields)
    assert State.parse(state.query) == state
    assert State.parse(state.query).query == state.query


@given(st.text(max_size=300))
def test_no_link_breaks_the_reader_of_links(query: str) -> None:
    state = State.parse(query)
    assert State.parse(state.query).query == state.query
    assert state.filter is not None


def test_another_filter_begins_with_the_first_page() -> None:
    state = State.parse("view=rollouts&page=7&status=masked&kind=x")
    assert state.but(status=("resolved",)).page == 1
    assert state.but(page=8).status == ("masked",)
    assert state.but(kind=None).more == {}
    assert state.goto("masks").query == "view=masks"


_LOG = b"""collected 4 items
a/test_x.py::test_one FAILED
a/test_x.py::test_one_more PASSED
a/test_x.py::test_one[1] PASSED
=== FAILURES ===
____ test_one ____

    def test_one():
>       assert 1 == 2
E       assert 1 == 2
FAILED a/test_x.py::test_one - assert 1 == 2
test_old (pkg.tests.Case) ... ok
"""


def test_a_proof_is_of_this_test_and_of_no_longer_name() -> None:
    proof = LogText(_LOG).proof("a/test_x.py::test_one", "FAILED")
    assert [number for number, _line in proof.lines] == [1, 10]
    assert proof.block[0] == (5, "____ test_one ____")
    assert (9, "E       assert 1 == 2") in proof.block
    proof = LogText(_LOG).proof("a/test_x.py::test_one[1]", "PASSED")
    assert [number for number, _line in proof.lines] == [3]
    assert LogText(_LOG).proof("test_old (pkg.tests.Case)", "PASSED").lines == (
        (11, "test_old (pkg.tests.Case) ... ok"),
    )
    assert LogText(_LOG, first_line=100).proof("b::test_one_more", "PASSED").lines[0][0] == 102, "by its last part"
    assert LogText(_LOG).proof("a/test_x.py::test_none", "MISSING").lines == ()


def test_a_proof_of_a_long_failure_has_its_errors_and_nothing_of_the_next() -> None:
    source = b"".join(b"    source %d\n" % n for n in range(40))
    log = (
        b"___ test_one ___\n"
        + source
        + b">       assert 1 == 2\nE       assert 1 == 2\n\n___ test_two ___\nE       no\n"
    )
    block = LogText(log).proof("a.py::test_one", "FAILED").block
    assert len(block) == 14
    assert block[0] == (0, "___ test_one ___")
    assert block[-1] == (42, "E       assert 1 == 2")


def test_a_bar_of_a_budget_without_a_limit_is_empty() -> None:
    assert "<rect" not in budget_bar(None, 5.0, 1.0)
    assert "5.0 s spent, no limit" in budget_bar(None, 5.0)
    assert budget_bar(10.0, 5.0).count("<rect") == 2


@pytest.mark.parametrize(
    "data",
    [
        b"_" * (4 << 20) + b"\ntest_one FAILED\n",
        b"\n" * (4 << 20) + b"test_one FAILED\n",
        b"test_one " * (1 << 19) + b"\ntest_one FAILED\n",
        b"test_one_more " * (1 << 18) + b"\ntest_one FAILED\n",
        b"FAIL test_one\n" * (1 << 18) + b"test_one FAILED\n",
    ],
    ids=["underscores", "newlines", "the name", "longer names", "heads"],
)
def test_a_log_that_a_box_made_to_be_slow_is_read_as_fast_as_any(data: bytes) -> None:
    """A pattern over all of it took hours for the first, and a list of its lines gigabytes for the second."""
    tracemalloc.start()
    begin = time.process_time()
    proof = LogText(data).proof("a/test_x.py::test_one", "FAILED")
    took = time.process_time() - begin
    _now, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert proof.lines[-1] == (data.count(b"\n") - 1, "test_one FAILED")
    assert took < 3
    assert most < 64 << 20


def test_a_bar_is_never_longer_than_it_is() -> None:
    drawn = bar([("status", "resolved", 30.0), ("status", "unresolved", -5.0), ("status", "<x>", 90.0)], total=60)
    widths = [float(found) for found in re.findall(r'width="([\d.]+)%"', drawn)]
    assert sum(widths) <= 100.01
    assert "<x>" not in drawn


def test_an_end_is_foretold_only_for_what_goes_on() -> None:
    going = RunRow(run="r", path="/r", started_at=100.0, expected=10, rollouts=10, counts={"resolved": 5}, alive=True)
    assert eta(going, now=200.0) == 300.0
    assert eta(going.model_copy(update={"alive": False}), now=200.0) is None
    assert eta(going.model_copy(update={"counts": {"resolved": 1}}), now=200.0) is None
    assert state_of(going.model_copy(update={"alive": False})).word == "killed"
    assert state_of(going.model_copy(update={"end_reason": "stopped"})).is_over


def test_numbers_are_read_as_people_say_them() -> None:
    assert [seconds(value) for value in (None, 0.04, 59.6, 3599, 7265, 90000)] == [
        "\u2013",
        "0.0 s",
        "1 m 00 s",
        "59 m 59 s",
        "2 h 01 m",
        "1 d 1 h",
    ]
    assert [size(value) for value in (0, 1023, 1536, 3 << 30)] == ["0 B", "1023 B", "1.5 KiB", "3.0 GiB"]


def test_an_index_that_cannot_be_kept_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_store(tmp_path, runs=4, rollouts=8)
    hub = Hub(tmp_path)
    before = hub.page("view=runs")
    assert "made-up" in before.html

    def full(_index: RunIndex) -> str:
        raise NoSpace("cannot write the index: disk is full", remedy="free space, or set SWE_SDK_INDEX")

    monkeypatch.setattr(RunIndex, "version", full)
    hub._looked_at = 0.0
    page = hub.page("view=runs&sort=run")
    assert "The runs cannot be read" in page.html
    assert "SWE_SDK_INDEX" in page.html
    monkeypatch.undo()
    assert "made-up" in hub.page("view=runs&sort=run").html, "and it goes on when it can"
    hub.close()


def test_a_view_that_fails_takes_no_other_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_store(tmp_path, runs=4, rollouts=8)
    hub = Hub(tmp_path)
    monkeypatch.setattr(RunIndex, "mask_cells", lambda *_args, **_more: 1 / 0)
    assert "This view failed" in hub.page("view=masks").html
    assert "This view failed" not in hub.page("view=rollouts").html
    hub.close()


def test_pages_are_made_once_for_all_viewers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_store(tmp_path, runs=4, rollouts=40)
    hub = Hub(tmp_path)
    first = hub.page("view=rollouts")
    assert hub.page("view=rollouts") is first
    write_store(tmp_path / "more", runs=4, rollouts=4)
    (tmp_path / "more" / "00-mini-swe-agent-made-up-7b").rename(tmp_path / "new-one")
    hub._looked_at = 0.0
    assert hub.page("view=rollouts").version != first.version
    hub.close()
