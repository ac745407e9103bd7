"""Log parsers: the printed output of a test run to the status of each test.

``parse_log(name, text)`` reads a test section. Under the names of the official SWE-bench registry it gives what
swebench 5.0.2 gives, test for test and quirk for quirk; ``unittest``, ``go_test`` and others are strict parsers of our
own, see docs/parsers.md.
``parse_official_log(name, log)`` finds the section in a whole log first and says whether its results count.

Parsers never raise on any text. Statuses are PASSED, FAILED, ERROR, SKIPPED and XFAIL; the official pytest parsers can
give others too (``ERROR:``), because they take the first word of a line that merely starts with one of these.
"""

from __future__ import annotations

from swe_sdk.recipes.parsers.registry import find_parser, parser_names
from swe_sdk.recipes.parsers.repositories import parser_for_repository
from swe_sdk.recipes.parsers.section import (
    ParsedLog,
    TestSection,
    decode_log,
    graded_statuses,
    lenient_section,
    official_section,
)

__all__ = [
    "ParsedLog",
    "TestSection",
    "decode_log",
    "lenient_section",
    "official_section",
    "parse_log",
    "parse_official_log",
    "parser_for_repository",
    "parser_names",
]


def parse_log(name: str, log: str, instance: str | None = None, version: str | None = None) -> dict[str, str]:
    """The status of each test in the test section ``log``: ``{test id: status}``, in the official order.

    ``name`` is an official registry name, with or without ``parse_log_`` (``parse_log_astropy``, ``astropy``), or one
    of our own (see :func:`parser_names`). ``instance`` and ``version`` are the task's: ``immutable_js`` and ``jekyll``
    go by the one, ``lighthouse`` and ``next`` by the other. Raises :class:`swe_sdk.errors.UnknownParser` for
    another name, and nothing else.
    """
    return find_parser(name, instance, version)(log)


def parse_official_log(name: str, log: str, instance: str | None = None, version: str | None = None) -> ParsedLog:
    """The statuses by which the official harness (5.x) would grade the whole log ``log``, and their section.

    Decode the log with :func:`decode_log` to see what it sees. Raises :class:`swe_sdk.errors.UnknownParser`.
    """
    return graded_statuses(log, find_parser(name, instance, version))
