"""Two runs side by side, as pure data."""

from __future__ import annotations

import pytest

from swe_sdk.errors import UnknownTask
from swe_sdk.metrics import Comparison
from swe_sdk.metrics.comparison import pairs_of
from swe_sdk.metrics.passes import Counted

A = {
    "gained": Counted(0, 1, 0),
    "lost": Counted(1, 0, 0),
    "both": Counted(1, 0, 0),
    "neither": Counted(0, 1, 0),
    "masked-a": Counted(0, 0, 1),
    "masked-b": Counted(1, 0, 0),
    "only-a": Counted(1, 0, 0),
    "stopped": Counted(0, 0, 0),
}
B = {
    "gained": Counted(1, 0, 0),
    "lost": Counted(0, 1, 0),
    "both": Counted(1, 0, 0),
    "neither": Counted(0, 1, 0),
    "masked-a": Counted(1, 0, 0),
    "masked-b": Counted(0, 0, 1),
    "only-b": Counted(0, 0, 1),
    "stopped": Counted(0, 0, 0),
}


@pytest.fixture
def comparison() -> Comparison:
    return Comparison(pairs_of(A, B, {"gained": "swe-bench"}), a="old", b="new")


def test_each_task_is_in_one_group(comparison: Comparison) -> None:
    assert {pair.instance_id: pair.change for pair in comparison} == {
        "gained": "gained",
        "lost": "lost",
        "both": "same",
        "neither": "same",
        "masked-a": "masked",
        "masked-b": "masked",
        "only-a": "only in a",
        "only-b": "only in b",
    }, "what no rollout has finished of is not there"
    assert comparison.counts == {"gained": 1, "lost": 1, "same": 2, "masked": 2, "only in a": 1, "only in b": 1}
    assert sum(comparison.counts.values()) == len(comparison)
    assert [pair.instance_id for pair in comparison.flips] == ["gained", "lost"]


def test_masks_are_in_no_number(comparison: Comparison) -> None:
    without = Comparison([pair for pair in comparison if pair.change != "masked"])
    assert comparison.difference == without.difference
    assert comparison.p_value == without.p_value == 1.0
    assert (comparison.difference.value, comparison.difference.tasks) == (0.0, 4)
    frame = comparison.to_frame()
    assert frame.loc["masked-a", ["rate_a", "difference"]].isna().all()
    assert frame["difference"].mean() == 0.0
    assert frame.loc["masked-a", "verdict_a"] == "masked"
    assert frame.loc["gained", "family"] == "swe-bench"


def test_how_far_masks_could_move_it(comparison: Comparison) -> None:
    moved = comparison.if_masks_were_known
    assert moved is not None
    # six tasks: one gained, one lost; masked-a is resolved in b, masked-b in a
    assert (moved.low, moved.high) == (pytest.approx((0 + 0 - 1) / 6), pytest.approx((0 + 1 + 0) / 6))
    assert "masks could move the difference to -0.167 or +0.167" in comparison.summary
    assert Comparison(comparison.measured).if_masks_were_known is None
    assert "masks could" not in Comparison(comparison.measured).summary


def test_several_samples_make_rates() -> None:
    pairs = pairs_of({"t": Counted(1, 3, 1), "u": Counted(0, 0, 2)}, {"t": Counted(2, 1, 0), "u": Counted(2, 0, 0)})
    comparison = Comparison(pairs)
    task = comparison["t"]
    assert (task.rate_a, task.rate_b, task.change) == (0.25, pytest.approx(2 / 3), "gained")
    assert (task.verdict_a, task.verdict_b) == ("1/4 resolved", "2/3 resolved")
    assert comparison["u"].verdict_a == "masked"
    assert comparison.test == "exact sign test"
    assert "exact sign test" in comparison.summary


def test_it_is_a_sequence_that_knows_ids(comparison: Comparison) -> None:
    assert comparison[0] is comparison["gained"]
    assert isinstance(comparison[:2], Comparison)
    assert "lost" in comparison
    assert comparison[1] in comparison
    assert "nothing" not in comparison
    with pytest.raises(UnknownTask, match="gained"):
        comparison["gaind"]


def test_it_tells_everything_in_words_and_as_plain_data(comparison: Comparison) -> None:
    assert comparison.summary.splitlines()[0] == (
        "1 gained, 1 lost, 2 the same of 4 measured in both, 2 masked, 1 only in a, 1 only in b"
    )
    assert repr(comparison).startswith("<Comparison new beside old: 1 gained")
    told = comparison.to_dict()
    assert (told["p_value"], told["test"], told["counts"]["masked"]) == (1.0, "exact McNemar", 2)
    assert [task["instance_id"] for task in told["tasks"]] == [pair.instance_id for pair in comparison]
    html = comparison._repr_html_()
    assert "exact McNemar" in html
    assert "masked-a" in html


def test_what_a_data_set_names_is_shown_and_never_run() -> None:
    evil = "<script>alert(1)</script>"
    html = Comparison(pairs_of({evil: Counted(1, 0, 0)}, {evil: Counted(0, 1, 0)}), a=evil, b=evil)._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;" in html


def test_nothing_to_compare_is_no_error() -> None:
    empty = Comparison([])
    assert (empty.p_value, empty.difference.value, len(empty)) == (1.0, None, 0)
    assert "not measured" in empty.summary
    assert list(empty.to_frame().columns) == list(Comparison(pairs_of(A, B)).to_frame().columns)
