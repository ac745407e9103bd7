"""A list that stays on disk behaves as the list that it would be in memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.runs import paged
from swe_sdk.runs.paged import Paged
from swe_sdk.store.rows import Page

bounds = st.none() | st.integers(-12, 12)
lists = st.lists(st.integers(), max_size=9)


def over(values: list[int]) -> Paged[int]:
    def fetch(offset: int, limit: int) -> Page[int]:
        assert offset >= 0
        assert limit >= 0
        return Page[int](rows=tuple(values[offset : offset + limit]), offset=offset, total=len(values))

    return Paged(fetch, "number")


@pytest.fixture(autouse=True, scope="module")
def short_pages() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paged, "_PAGE", 2)
        yield


@given(lists)
def test_length_order_and_membership(values: list[int]) -> None:
    found = over(values)
    assert (len(found), list(found), list(reversed(found))) == (len(values), values, values[::-1])
    assert all(value in found for value in values)


@given(lists, bounds, bounds, st.none() | st.integers(-3, 3).filter(bool))
def test_slices(values: list[int], start: int | None, stop: int | None, step: int | None) -> None:
    assert over(values)[start:stop:step] == values[start:stop:step]


@given(lists, st.integers(-12, 12))
def test_places(values: list[int], place: int) -> None:
    found = over(values)
    if -len(values) <= place < len(values):
        assert found[place] == values[place]
    else:
        with pytest.raises(IndexError, match="number"):
            found[place]
