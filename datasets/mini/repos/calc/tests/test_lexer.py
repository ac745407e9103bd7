import pytest

from calc_lexer import CalcError, tokenize


def test_tokens_carry_kind_text_and_position():
    assert list(tokenize("a*1.5")) == [
        ("name", "a", 0),
        ("op", "*", 1),
        ("number", "1.5", 2),
        ("end", "", 5),
    ]


def test_spaces_are_dropped():
    assert [token.text for token in tokenize("  7 \t+ 1 ")] == ["7", "+", "1", ""]


def test_unknown_character():
    with pytest.raises(CalcError, match="unexpected character"):
        list(tokenize("1 & 2"))
