import pytest

from semrange import Range, RangeError, max_satisfying


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1.2.3", "1.2.3"),
        (">=1.2.0 <2.0.0", "1.9.9"),
        (">= 1.2.0 < 2.0.0", "1.2.0"),
        ("~1.2.3", "1.2.9"),
        ("^1.2.3", "1.9.0"),
        ("^1.2 || >=3.0.0", "3.1.0"),
        ("[1.0.0,2.0.0)", "1.0.0"),
        ("[1.0.0, 2.0.0]", "2.0.0"),
        ("(,1.0.0]", "0.5.0"),
        ("*", "7.0.0"),
    ],
)
def test_allows(text, version):
    assert Range.parse(text).allows(version)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1.2.3", "1.2.4"),
        (">=1.2.0 <2.0.0", "2.0.0"),
        ("~1.2.3", "1.3.0"),
        ("^1.2.3", "2.0.0"),
        ("^1.2.3", "1.2.2"),
        ("^1.2 || >=3.0.0", "2.0.0"),
        ("[1.0.0,2.0.0)", "2.0.0"),
        ("(1.0.0,)", "1.0.0"),
    ],
)
def test_refuses(text, version):
    assert not Range.parse(text).allows(version)


def test_max_satisfying():
    assert max_satisfying(["1.0.0", "1.4.9", "1.4.10", "2.0.0"], "~1.4.0") == "1.4.10"
    assert max_satisfying(["1.0.0"], ">1") is None


@pytest.mark.parametrize("text", ["latest", ">=", "[1.0.0;2.0.0]", "1.0 ||| 2.0"])
def test_not_a_range(text):
    with pytest.raises(RangeError):
        Range.parse(text)


def test_text_shows_plain_comparators():
    assert str(Range.parse("^1.2 || *")) == ">=1.2.0 <2.0.0 || *"
