import pytest

from calc import CalcError, Calculator


@pytest.fixture
def calculator():
    return Calculator({"x": 3.0, "rate": 0.25})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1+2*3", 7),
        ("(1+2)*3", 9),
        ("10-4-3", 3),
        ("7%4*2", 6),
        ("2*-x", -6),
        ("--x", 3),
        ("100*(1+rate)", 125),
        ("1e3/.5", 2000),
    ],
)
def test_arithmetic(calculator, text, value):
    assert calculator.evaluate(text) == pytest.approx(value)


def test_power(calculator):
    assert calculator.evaluate("2 ^ 10") == 1024
    assert calculator.evaluate("3 * x ^ 2") == 27
    assert calculator.evaluate("2 ^ -1") == 0.5


def test_functions(calculator):
    assert calculator.evaluate("max(1, sqrt(16), x)") == 4
    assert calculator.evaluate("floor(-0.5)") == -1


@pytest.mark.parametrize(
    ("text", "position"),
    [("1+", 2), ("1/0", 1), ("(1", 2), ("1(2)", 1), ("nope+1", 0), ("f(1)", 0), ("2$3", 1), ("0^-1", 1)],
)
def test_errors_name_the_position(calculator, text, position):
    with pytest.raises(CalcError) as caught:
        calculator.evaluate(text)
    assert caught.value.position == position


def test_root_of_a_negative_number_is_refused(calculator):
    with pytest.raises(CalcError, match="not a real number"):
        calculator.evaluate("(-8) ^ 0.5")
