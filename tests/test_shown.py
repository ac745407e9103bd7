"""Text of agents does nothing to a terminal or a page."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.notebook.html import element
from swe_sdk.shown import html_text, neutral, one_line

HOSTILE = "\x1b]0;owned\x07\x1b[2J\r<script>alert(1)</script>\u202etxt.exe\x9b31m"


def test_control_characters_are_shown_and_do_nothing() -> None:
    assert neutral(HOSTILE) == "␛]0;owned␇␛[2J␍<script>alert(1)</script>\ufffdtxt.exe\ufffd31m"
    assert neutral("a\tb\nc\x7f\ud800") == "a\tb\nc␡\ufffd"


@given(st.text(st.characters(codec=None)))
def test_any_text_becomes_printable_and_stays_so(text: str) -> None:
    safe = neutral(text)
    assert neutral(safe) == safe
    assert all(sign in "\t\n" or ord(sign) >= 0x20 for sign in safe)
    safe.encode("utf-8")
    line = one_line(text, 40)
    assert len(line) <= 40
    assert "\n" not in line


@pytest.mark.parametrize("value", ["<img src=x onerror=alert(1)>", '"><b>', "&lt;", "'"])
def test_markup_is_shown(value: str) -> None:
    shown = html_text(value)
    assert not set(shown) & set("<>\"'")
    assert element("td", value).markup == f"<td>{shown}</td>"


def test_rich_prints_no_escape_of_an_agent() -> None:
    from rich.console import Console

    from swe_sdk.cli_show import plain

    screen = io.StringIO()
    Console(file=screen, force_terminal=True, color_system=None, width=200).print(plain(HOSTILE))
    assert "\x1b" not in screen.getvalue()
    assert "\x07" not in screen.getvalue()
