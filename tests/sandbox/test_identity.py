"""Which ids stand behind a box's users."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.sandbox.boxside.root import AGENT_ID
from swe_sdk.sandbox.providers.local.identity import Identity, choose_range, current_identity

EVERYTHING = [(0, 4_294_967_295)]


def test_on_an_ordinary_machine_the_ids_belong_to_nobody() -> None:
    first, count = choose_range(EVERYTHING)
    assert count == 65_536
    assert first > 1_879_048_191, "above the ranges of distributions and of systemd's containers"
    assert first + count <= 2**31 - 2, "some programs take ids for signed numbers"


@pytest.mark.parametrize(
    ("extents", "chosen"),
    [
        ([(0, 65_536)], (32_768, 32_768)),  # a rootless or remapped container
        ([(0, 1), (1, 65_536)], (32_769, 32_768)),  # newuidmap's usual two lines
        ([(0, 1), (1, 200_000), (500_000, 10)], (134_465, 65_536)),
        ([(0, 1000), (1_900_000_000, 65_536)], (1_900_000_000, 65_536)),
        ([(0, 1)], (1, 0)),  # nothing to give: the box has one user
    ],
)
def test_in_a_container_the_upper_half_of_the_largest_extent_is_taken(
    extents: list[tuple[int, int]], chosen: tuple[int, int]
) -> None:
    assert choose_range(extents) == chosen


@given(st.lists(st.tuples(st.integers(0, 2**31), st.integers(1, 2**31)), min_size=1, max_size=5))
def test_the_range_always_lies_within_an_extent(extents: list[tuple[int, int]]) -> None:
    first, count = choose_range(extents)
    assert 0 <= count <= 65_536
    assert any(start <= first and first + count <= start + size for start, size in extents)


def test_an_identity_says_its_map_and_owns_paths(tmp_path: Path) -> None:
    alone = Identity(first=None)
    assert not alone.has_range
    alone.own(tmp_path)  # does nothing
    ranged = Identity(first=5000, count=2000)
    assert ranged.id_map == "0 5000 2000"
    if os.geteuid() == 0:
        link = tmp_path / "link"
        link.symlink_to("/etc/passwd")
        ranged.own(link)
        assert link.lstat().st_uid == 5000 + AGENT_ID
        assert Path("/etc/passwd").stat().st_uid == 0, "a link is owned itself, not what it points to"


def test_root_has_a_range_and_others_have_not() -> None:
    identity = current_identity()
    assert identity.has_range == (os.geteuid() == 0)
