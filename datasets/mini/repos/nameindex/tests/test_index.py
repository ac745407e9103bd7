from nameindex import build_index, columns, sort_names


def test_umlauts_sort_as_two_letters():
    assert sort_names(["Zorn", "Müller", "Mufti", "Muendel", "Adam"]) == ["Adam", "Müller", "Muendel", "Mufti", "Zorn"]


def test_case_does_not_matter():
    assert sort_names(["von Arx", "Vogel", "Von Berg"]) == ["Vogel", "von Arx", "Von Berg"]


def test_index():
    index = build_index(["3M", "Zorn", "Ärger", "Adam"])
    assert index == {"A": ["Adam", "Ärger"], "Z": ["Zorn"], "#": ["3M"]}
    assert list(index) == ["A", "Z", "#"]


def test_columns():
    index = {"A": ["Adam", "Aschenbrenner"], "B": ["Berg"]}
    assert columns(index, width=12) == "A           B\n  Adam        Berg\n  Aschenbr."
