import pytest

from inifile import IniError, loads

TEXT = """\
; settings
[Paths]
cache = C:\\cache   ; where things go
empty =
nothing = # really

[window]
title = "  Main  "
Maximized = Yes
hosts = alpha,
    beta   ; the second one
    gamma
"""


@pytest.fixture
def config():
    return loads(TEXT)


def test_sections_keep_their_order(config):
    assert config.sections() == ["paths", "window"]


def test_values(config):
    assert config.get("paths", "cache") == "C:\\cache"
    assert config.get("PATHS", "Cache") == "C:\\cache"
    assert config.get("paths", "missing", "x") == "x"


def test_empty_values(config):
    assert config.get("paths", "empty") == ""
    assert config.get("paths", "nothing") == ""


def test_quotes_keep_spaces(config):
    assert config.get("window", "title") == "  Main  "


def test_booleans(config):
    assert config.get_bool("window", "maximized") is True
    assert config.get_bool("window", "missing", True) is True
    with pytest.raises(ValueError, match="not a boolean"):
        config.get_bool("window", "title")


def test_continued_value(config):
    assert config.get_list("window", "hosts") == ["alpha", "beta", "gamma"]


def test_crlf_text():
    assert loads(TEXT.replace("\n", "\r\n")).get("window", "title") == "  Main  "


@pytest.mark.parametrize(
    ("text", "line"), [("a = 1", 1), ("[s]\nnonsense", 2), ("[s]\n= 1", 2)], ids=["no-section", "no-key", "no-name"]
)
def test_bad_lines(text, line):
    with pytest.raises(IniError) as caught:
        loads(text)
    assert caught.value.line == line
