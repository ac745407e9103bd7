import pytest

from spans import SpanSet


def filled(*spans):
    made = SpanSet()
    for first, last in spans:
        made.add(first, last)
    return made


def test_apart():
    assert list(filled((5, 5), (1, 3))) == [(1, 3), (5, 5)]


def test_overlap():
    assert list(filled((1, 4), (3, 8))) == [(1, 8)]


def test_contains_and_len():
    spans = filled((1, 3), (7, 9))
    assert 2 in spans
    assert 5 not in spans
    assert len(spans) == 6


class TestErrors:
    def test_backwards(self):
        with pytest.raises(ValueError, match="cannot end"):
            filled((3, 1))
