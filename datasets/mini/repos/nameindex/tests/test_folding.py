import pytest

from nameindex import fold


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Müller", "mueller"),
        ("Groß", "gross"),
        ("Özdemir", "oezdemir"),
        ("Renée", "renee"),
    ],
)
def test_fold(name, key):
    assert fold(name) == key


def test_signs_and_spaces():
    assert fold("García-Núñez") == "garcia nunez"
    assert fold(" O'Neill  jr. ") == "oneill jr"
