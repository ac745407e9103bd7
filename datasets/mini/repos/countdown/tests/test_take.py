import pytest

from countdown import take


def test_both():
    assert take(["day", "hour"], [1, 2]) == "1 day, 2 hours"


def test_zero_is_left_out():
    assert take(["day", "hour"], [0, 5]) == "5 hours"


def test_lengths():
    with pytest.raises(ValueError):
        take(["day"], [])
