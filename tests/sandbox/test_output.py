"""Head and tail of a stream, against the obvious way to cut it."""

from __future__ import annotations

import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from swe_sdk.errors import InputError
from swe_sdk.sandbox.output import HeadTail


def cut(stream: bytes, limit: int) -> tuple[bytes, int]:
    """What must be kept, and how much is lost: the head has the odd byte."""
    if len(stream) <= limit:
        return stream, 0
    head, tail = limit - limit // 2, limit // 2
    return stream[:head] + stream[len(stream) - tail :], len(stream) - limit


@given(st.integers(0, 20), st.lists(st.binary(max_size=9), max_size=20))
@example(0, [b"x"])
@example(1, [b"", b"ab"])
@example(2, [b"abc", b"", b"d"])
def test_it_keeps_what_the_obvious_way_keeps(limit: int, chunks: list[bytes]) -> None:
    kept = HeadTail(limit)
    for fed in range(len(chunks) + 1):
        stream = b"".join(chunks[:fed])
        assert kept.result() == cut(stream, limit)
        assert kept.total == len(stream)
        if fed < len(chunks):
            kept.feed(chunks[fed])


@pytest.mark.parametrize("size", [1, 100, 1 << 16, 3 << 20])
def test_memory_does_not_grow_with_the_stream(size: int) -> None:
    kept = HeadTail(1 << 20)
    for _ in range((16 << 20) // size if size > 1 else 1 << 20):
        kept.feed(b"x" * size)
    held = sum(map(sys.getsizeof, kept._tail)) + sys.getsizeof(kept._head)
    assert held < (1 << 20) + 2 * size + 40 * (1 << 19)
    assert len(kept.result()[0]) == 1 << 20


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(InputError, match="-1 bytes"):
        HeadTail(-1)
