import pytest

from inifile import Config, dumps, loads


def test_write():
    config = Config()
    config.set("paths", "cache", "C:\\cache")
    config.set("paths", "title", " x ")
    config.set("window", "hosts", "alpha\nbeta")
    text = '[paths]\ncache = C:\\cache\ntitle = " x "\n\n[window]\nhosts = alpha\n    beta\n'
    assert dumps(config) == text
    assert list(loads(text).items("paths")) == list(config.items("paths"))


def test_empty():
    assert dumps(Config()) == ""


def test_two_kinds_of_quotes_cannot_be_written():
    config = Config()
    config.set("s", "k", "\"it's\" ")
    with pytest.raises(ValueError, match="both kinds of quotes"):
        dumps(config)
