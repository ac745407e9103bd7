"""Whatever a box, an agent or a data set writes: shown in a real browser, nothing of it runs or breaks out."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swe_sdk.notebook import html as choke_point
from swe_sdk.notebook.render_html import LIMIT_BYTES
from swe_sdk.notebook.render_text import LIMIT_LINES
from swe_sdk.notebook.reprs.show import VIEWS, html_of, text_of
from tests.notebook.shown_objects import objects, outcome, patch, plain_objects, result

pytestmark = pytest.mark.timeout(180)

OWN = "window.owned=(window.owned||0)+1"
HOSTILE = (
    f"\"><script>{OWN}</script><img src=x onerror={OWN}>' onmouseover='{OWN}' style='display:none' x='"
    f"</style></details></summary></pre></table></div><style>*{{display:none}}</style><svg onload={OWN}>"
    f"<iframe srcdoc='<script>parent.{OWN}</script>'></iframe><a href='javascript:{OWN}'>x</a><!-- <![CDATA[ ]]> -->"
    "\x1b[31m\x1b]0;title\x07\0\r\x08\x7f\x9b31m\u202etxt.exe\u2066\u200f\u061c\u2028\ufffe{{7*7}}${7*7}&lt;b&gt;&#60;"
)
HARMLESS_TAGS = {
    *("CODE", "DETAILS", "DIV", "PRE", "SPAN", "STRONG", "STYLE", "SUMMARY"),
    *("TABLE", "TBODY", "TD", "TH", "THEAD", "TR"),
}
LOOK = """() => {
  const all = [...document.querySelectorAll('.swe, .swe *')];
  return {
    owned: window.owned || 0,
    tags: [...new Set(all.map(each => each.tagName))],
    attributes: [...new Set(all.flatMap(each => each.getAttributeNames()))],
    roots: document.querySelectorAll('body > section > .swe').length,
    styles: document.querySelectorAll('.swe style').length,
    outside: [...document.querySelectorAll('body > section')].filter(each => each.childNodes.length !== 1).length,
    links: all.filter(each => each.href || each.src).length,
  };
}"""


def looked_at(chromium: Any, pieces: list[str]) -> dict[str, Any]:
    """What a page of all pieces has become, with every fold open and every element hovered over by a script."""
    asked: list[str] = []
    page = chromium.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.set_content("<body>" + "".join(f"<section>{piece}</section>" for piece in pieces) + "</body>")
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    page.evaluate(
        "document.querySelectorAll('.swe *').forEach(each => each.dispatchEvent(new MouseEvent('mouseover')))"
    )
    page.wait_for_timeout(200)
    found: dict[str, Any] = page.evaluate(LOOK)
    page.close()
    return {**found, "asked": [url for url in asked if not url.startswith(("about:", "data:"))]}


def test_every_object_is_among_those_that_are_tried(tmp_path: Path) -> None:
    with objects("x", tmp_path) as shown:
        assert {name.partition(",")[0].partition(" ")[0] for name in shown} == set(VIEWS)


def test_nothing_runs_in_a_browser(chromium: Any, tmp_path: Path) -> None:
    with objects(HOSTILE, tmp_path) as shown:
        pieces = [each._repr_html_() for each in shown.values()]
    found = looked_at(chromium, pieces)
    assert (found["owned"], found["asked"], found["links"]) == (0, [], 0)
    assert set(found["tags"]) <= HARMLESS_TAGS
    assert set(found["attributes"]) <= {"class", "style", "open", "title"}
    assert (found["roots"], found["styles"], found["outside"]) == (len(pieces), len(pieces), 0), "none breaks out"
    assert all("<script>" in piece.replace("&lt;", "<").replace("&gt;", ">") for piece in pieces if "img" in piece)


def test_the_browser_would_have_noticed(chromium: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the one place that escapes, the same texts do run."""
    monkeypatch.setattr(choke_point, "html_text", str)
    found = looked_at(chromium, [each._repr_html_() for each in plain_objects(HOSTILE).values()])
    assert found["owned"] > 0


def test_html_is_well_formed_and_free_of_control_characters(tmp_path: Path) -> None:
    with objects(HOSTILE, tmp_path) as shown:
        for name, each in shown.items():
            html = each._repr_html_()
            root = ET.fromstring(html)
            assert (root.tag, root.get("class")) == ("div", "swe"), name
            assert not [sign for sign in html if ord(sign) < 0x20 and sign not in "\t\n"], name
            assert "\u202e" not in html, name


def test_terminals_are_safe_too(tmp_path: Path) -> None:
    with objects(HOSTILE, tmp_path) as shown:
        for name, each in shown.items():
            for text in (str(each), repr(each)):
                signs = {sign for sign in text if not sign.isprintable() and sign not in "\t\n"}
                assert signs == set(), name
            assert "\n" not in repr(each), name
            assert len(repr(each)) <= 1200, name
            assert str(each).count("\n") <= LIMIT_LINES, name


TEXTS = st.text(st.characters(codec=None), max_size=300) | st.sampled_from(
    ["&" * 3000, "'" * 5000, "\U0001f600" * 5000, "\n" * 5000, "<" * 20_000, "x " * 20_000, "\0" * 3000]
)
SETTINGS = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@SETTINGS
@given(TEXTS)
def test_any_text_is_drawn_within_bounds(text: str) -> None:
    for name, each in plain_objects(text or "x").items():
        html = html_of(each)
        assert len(html.encode("utf-8")) <= LIMIT_BYTES, name
        ET.fromstring(html)
        lines = text_of(each).split("\n")
        assert len(lines) <= LIMIT_LINES, name
        assert max(map(len, lines)) <= 600, name


@SETTINGS
@given(st.integers(0, 3000), st.sampled_from(["x", "'" * 400, "\U0001f600" * 200]))
def test_any_number_is_drawn_within_bounds_and_counted(count: int, text: str) -> None:
    many = outcome(text, tests=count)
    diff = patch(text, files=min(count, 500))
    for each in (many, diff, result(f"{text}\n" * count)):
        html = html_of(each)
        assert len(html.encode("utf-8")) <= LIMIT_BYTES
        ET.fromstring(html)
        assert text_of(each).count("\n") < LIMIT_LINES
    if count > 50:
        assert " more" in html_of(many)
        assert " more" in text_of(many)
