"""docs/parsers.md says where the official and the strict parsers differ: that table is made here, and compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import parser_corpus
import pytest
from test_parsers_languages import STRICT_BY_FRAMEWORK, TRUTHS

from swe_sdk.recipes.parsers import decode_log, lenient_section, parse_log
from swe_sdk.recipes.parsers.registry import STRICT

PAGE = Path(__file__).resolve().parents[3] / "docs" / "parsers.md"
HEAD = ["| id | official | strict |", "|---|---|---|"]


def differences() -> Iterator[str]:
    """The lines of the table, for each recorded run a heading and the ids of which the two say different things."""
    for row in TRUTHS:
        if row["swebench_parser"] is None:
            continue
        framework, official = row["framework"], row["swebench_parser"].removeprefix("parse_log_")
        strict = STRICT_BY_FRAMEWORK.get(framework, framework)
        text = lenient_section(decode_log(row["path"].read_bytes())).text
        theirs, ours = parse_log(official, text), parse_log(strict, text)
        lines = [
            f"| `{name}` | {theirs.get(name, '')} | {ours.get(name, '')} |"
            for name in dict.fromkeys((*ours, *theirs))
            if ours.get(name) != theirs.get(name)
        ]
        yield from ["", f"`{official}` and `{strict}`, {row['path'].stem}:", "", *HEAD, *lines] if lines else []


@pytest.mark.shared
def test_the_page_lists_the_differences():
    parser_corpus.need(parser_corpus.datasets(), "the shared data")
    page = PAGE.read_text("utf-8")
    listed = page.partition("<!-- differences -->\n")[2].partition("<!-- end of the differences -->")[0]
    assert listed.strip().splitlines() == "\n".join(differences()).strip().splitlines()


def test_the_page_names_each_strict_parser_with_its_official_one():
    page = PAGE.read_text("utf-8")
    for official, strict in STRICT.items():
        assert f"| `{official}` | `{strict}` |" in page
