"""Words of pictures, whatever others have called things."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

from swe_sdk.notebook.plots.labels import drawable, percent, short
from swe_sdk.notebook.plots.time_axis import unit_for

KNOWN = set(FT2Font(font_manager.findfont("DejaVu Sans")).get_charmap())


@given(st.text())
def test_a_font_is_asked_for_nothing_that_it_lacks(text: str) -> None:
    assert {ord(sign) for sign in drawable(short(text))} <= KNOWN
    assert "\n" not in short(text)


@given(st.text(alphabet=st.characters(categories=["L", "N"]), min_size=1), st.integers(3, 40))
def test_long_names_keep_both_ends(name: str, limit: int) -> None:
    cut = short(name, limit)
    assert len(cut) <= max(limit, 3)
    if len(name) <= limit:
        assert cut == name
    else:
        head, _, tail = cut.partition("…")
        assert name.startswith(head)
        assert name.endswith(tail)
        assert len(head) + len(tail) == limit - 1


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_only_all_is_all_and_only_none_is_none(part: int, rest: int) -> None:
    whole = part + rest
    shown = percent(part, whole)
    assert (shown == "100 %") == (0 < part == whole)
    assert (shown == "0 %") == (part == 0 < whole)
    assert (shown == "-") == (whole == 0)


@given(st.floats(0, 1e9))
def test_spans_are_numbers_of_few_digits(seconds: float) -> None:
    unit = unit_for(seconds)
    shown = seconds / unit.seconds
    assert unit.name == "days" or shown < 120
    assert unit.name == "seconds" or shown >= 2
