"""docs/parsers.md says where the official and the strict parsers differ: that table is made here, and compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import parser_corpus
import pytest
from test_parsers_languages import STRICT_BY_FRAMEWORK, TRUTHS

from swe_sdk.recipes.parsers import decode_log, lenient_section, parse_log
from swe_sdk.recipes.parsers.registry import PREFIX, PYTHON_STRICT, STRICT

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


def counts(statuses: Mapping[str, str]) -> str:
    return ", ".join(f"{number} {word}" for word, number in sorted(Counter(statuses.values()).items())) or "none"


def python_differences() -> Iterator[str]:
    """The same for Python, in numbers: a line for each log whose tests somebody has counted."""
    for row in parser_corpus.counted():
        official = row["framework"].removeprefix(PREFIX)
        text = lenient_section(decode_log(row["path"].read_bytes())).text
        theirs, ours = (counts(parse_log(name, text)) for name in (official, PYTHON_STRICT[official]))
        known = ", ".join(f"{number} {word.replace('_', ' ')}" for word, number in row["expected_counts"].items())
        yield f"| {row['path'].stem} | {known} | `{official}`: {theirs} | `{PYTHON_STRICT[official]}`: {ours} |"


@pytest.mark.shared
def test_the_page_lists_the_differences_of_python_runs():
    parser_corpus.need(parser_corpus.datasets(), "the shared data")
    listed = PAGE.read_text("utf-8").partition("<!-- python -->\n")[2].partition("<!-- end of python -->")[0]
    assert listed.strip().splitlines()[2:] == list(python_differences())


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
    assert all(f"`{strict}`" in page for strict in PYTHON_STRICT.values())
