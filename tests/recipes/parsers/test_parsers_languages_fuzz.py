"""On texts made of each parser's own marks ours give what the official ones give; none raises, none takes long."""

from __future__ import annotations

import re
import time
from itertools import chain
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swebench.harness.log_parsers import PARSER_REGISTRY
from test_parsers_fuzz import QUICK
from vocabulary import FRAGMENTS, NOISE, SPACES, TASKS

from swe_sdk.recipes.parsers import decode_log, parse_log, parse_official_log
from swe_sdk.recipes.parsers.markup import without_markup
from swe_sdk.recipes.parsers.registry import OWN
from swe_sdk.recipes.parsers.status import STATUSES

FAST = settings(QUICK, max_examples=70)

_RAISES = (AttributeError, IndexError, ValueError, SyntaxError, KeyError, TypeError)
"""What the official parsers of calypso, karma, prismjs and doctest end with on some logs."""


def texts(fragments: list[str]) -> st.SearchStrategy[str]:
    own, space, noise = st.sampled_from(fragments), st.sampled_from(SPACES), st.sampled_from(NOISE)
    return st.lists(st.one_of(own, own, own, space, noise), max_size=30).map("".join)


@pytest.mark.parametrize("name", sorted(FRAGMENTS))
@given(data=st.data())
@FAST
def test_equals_the_official_parser(name: str, data: st.DataObject):
    text = data.draw(texts(FRAGMENTS[name]))
    instance, version = data.draw(st.sampled_from(TASKS.get(name, [("x-1", "1")])))
    ours = parse_log(name, text, instance, version)
    try:
        official = PARSER_REGISTRY[f"parse_log_{name}"](text, SimpleNamespace(instance_id=instance, version=version))
    except _RAISES:
        return
    assert list(ours.items()) == list(official.items())


DOCTEST_TREES = st.recursive(
    st.sampled_from(['<Expression success="true"/>', '<Expression success="false"/>', "<Info>x</Info>", "&lt;"]),
    lambda inner: st.builds(
        lambda tag, name, parts: f'<{tag} name="{name}">{"".join(parts)}</{tag}>',
        st.sampled_from(["TestCase", "SubCase", "SubCase", "Other", "Expression"]),
        st.sampled_from("ab"),
        st.lists(inner, max_size=4),
    ),
    max_leaves=30,
)


@given(parts=st.lists(DOCTEST_TREES, max_size=4))
@QUICK
def test_doctest_reports_of_any_shape(parts: list[str]):
    log = f"words\n<doctest>{''.join(parts)}</doctest>\nmore"
    official = PARSER_REGISTRY["parse_log_doctest"](log, None)
    assert list(parse_log("doctest", log).items()) == list(official.items())
    assert set(parse_log("doctest_xml", log).values()) <= set(STATUSES)


def removed_by_the_letter(text: str) -> str:
    """The official rule for markup, applied as it is written: slow, and plain."""
    element = re.compile(r"<(\w+)>[\s\S]*?</\1>")
    while match := element.search(text):
        inner = max(match[0].count(f"<{match[1]}>") - 1, 0)
        text = text[: match.start()] + f"<{match[1]}>" * inner + text[match.end() :]
    return text


@given(parts=st.lists(st.sampled_from(["<a>", "</a>", "<b>", "</b>", "<", "</", "a>", "/a>", "<a", "b", ">", "/"])))
@QUICK
def test_markup_goes_as_by_the_letter(parts: list[str]):
    text = "".join(parts)
    assert without_markup(text) == removed_by_the_letter(text)


@pytest.mark.parametrize("name", sorted(OWN))
@given(data=st.data())
@FAST
def test_strict_parsers_never_raise_and_keep_to_the_statuses(name: str, data: st.DataObject):
    fragments = [*STRICT_MARKS, *chain.from_iterable(FRAGMENTS.values())]
    assert set(parse_log(name, data.draw(texts(fragments))).values()) <= set(STATUSES)


@given(log=st.binary(max_size=300))
@QUICK
def test_any_bytes(log: bytes):
    text = decode_log(log)
    for name in (*FRAGMENTS, *OWN):
        assert set(parse_log(name, text).values()) <= set(STATUSES), name


STRICT_MARKS = [
    *("=== RUN   TestA\n", "--- PASS: TestA (0.00s)\n", "--- FAIL: TestA (0.00s)\n", "running 2 tests\n"),
    *(
        "test a::b ... ok\n",
        "test a - should panic ... ",
        "ignored, why\n",
        "failures:\n    a::b\n",
        "test result: ok\n",
    ),
    *("[ RUN      ] S.A\n", "[       OK ] S.A (0 ms)\n", "[  FAILED  ] S.A\n", "1: ", "[  SKIPPED ] S.A (1 ms)\n"),
    *("PASS a.test.js\n", "  suite\n", "    ✓ a (1 ms)\n", "    ○ skipped b\n", "  ● suite \u203a a\n"),
    *(" ✓ a.js > b 5ms\n", " FAIL  a.js > b\n", "1..3\n", "ok 1 - a\n", "not ok 2 b # TODO x\n", "Bail out!\n"),
    *("Math\n ✔ a\n", " ✘ a [0.1 ms]\n", "TestM#test_a = 0.0 s = .\n", "  1) Failure:\nTestM#test_a [x:1]:\n"),
    *("  test: a:\t\t.: (0.1)\n", "a - pending\n", "1/2 Test #1: a ....   Passed  0.1 sec\n", "    Start 2: b\n"),
    *("2/2 Test #2: b ....***Timeout  1.0 sec\n", "  1 failing\n", "  1) a\n       b:\n", "  3 passing (5ms)\n"),
]

SIZE = 60_000
HOSTILE = {
    "white space": " " * SIZE,
    "line feeds": "\n" * SIZE,
    "digits": "1" * SIZE + "\n" + "1)" * SIZE,
    "numbers without an error": "  1) a\n" * (SIZE // 7),
    "browsers": "Chrome Headless 1 (Linux x86_64) " * (SIZE // 33) + "\n",
    "browsers, then systems": "Chrome Headless " * (SIZE // 32) + " (Linux x86_64) " * (SIZE // 32) + "x\n",
    "agents": "Chrome 1 (" * (SIZE // 10) + "FAILED\n" + "2KPhantomJS 1 (Linux 1) " * (SIZE // 24),
    "specs": "Running:" * (SIZE // 8) + ")\n\n\n  x\n",
    "assertions": "AssertionError: #" * (SIZE // 17),
    "deep suites": " xvfb-run \n" + "\n".join(" " * depth + "s" for depth in range(300)) + "\n  ✓ x" * (SIZE // 6),
    "open tags": "<a>" * (SIZE // 3),
    "joined tags": "<" + "a" * SIZE + "<b<x></x>></b>" * (SIZE // 14),
    "removed elements": "<" + "a" * SIZE + "<x></x>" * (SIZE // 7),
    "long suite, karma": "Starting browser\n " + "s" * SIZE + "\n" + "✔ x\n" * (SIZE // 4),
    "long suite, jest": " ./node_modules/.bin/jest \n " + "s" * SIZE + "\n" + "  ✓ x\n" * (SIZE // 6),
    "long suite, phpunit": "S" * SIZE + " (x)\n" + " ✔ x\n" * (SIZE // 5),
    "nested cases": "<doctest>" + "<TestCase name='a'>" * 2000 + "<SubCase name='b'>" * 2000 + "</SubCase>" * 2000,
    "tags of googletest": "[ OK ] " * (SIZE // 7) + "(x)",
    "brackets": "✓ " + " (" * SIZE + "s)\n[ok]: " + " (" * SIZE + "s)",
    "places": "[err]: " + " in a" * (SIZE // 5) + "\n[err]: " + " " * SIZE + "x in y",
    "builds": "-Dtest= " * (SIZE // 8) + "\n" + "-Dtest=x\n" * (SIZE // 9),
    "dots": " ." * SIZE + "\n" + ". = " * (SIZE // 4) + ".",
    "colons": ": " * SIZE + "\n:" + " " * SIZE,
    "points": "ok 1 " + "# " * SIZE + "\nok 1 " + " " * SIZE + "#",
    "objects": "./node_modules/.bin/mocha tests/run.js --reporter json{" + "[" * SIZE,
    "titles": "./node_modules/.bin/mocha --reporter json" + '"fullTitle": "' * (SIZE // 14),
    "durations": "PASS " + " (1ms" * (SIZE // 5) + "\nPASS x (" + "1" * SIZE + "s)",
    "announced, then many results": "[ RUN      ] a\n" + "[  FAILED  ] a, where " * (SIZE // 22) + " ms)\n",
    "announced in go": "=== RUN   a\n" + "--- PASS: a (0.0" * (SIZE // 16) + "s)\n",
    "names of vitest": " ✓ a"
    + " > a" * (SIZE // 4)
    + " \n ✓ a > b"
    + " [" * SIZE
    + "x\n FAIL  a"
    + " > a" * SIZE
    + " ",
    "names of minitest": "A" + "#a" * SIZE + "\nA#b = \n" + "1" * SIZE + "\n  1) Error:\nA:" + "#a" * SIZE,
    "names of test-unit": " " * SIZE + "a:\t\n" + "  a" + ": " * SIZE,
    "failing deep subcases": '<doctest><TestCase name="t">'
    + '<SubCase name="s"><Exception/>' * 3000
    + "</SubCase>" * 3000,
    "cargo tests": "running 1 test\ntest a" + " ... x" * SIZE + "\n" + "test " * SIZE,
    "jest files": "PASS a" + " (1.1" * SIZE + "\n" + "  s\n" * SIZE,
    "mocha lines": "  " + "s" * SIZE + "\n" + "    ✓ x (1ms" * SIZE + "\n  1 failing\n" + "  1) a\n" * (SIZE // 7),
    "cases": "\ncase " * (SIZE // 6),
}


@pytest.mark.parametrize("log", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_text_takes_more_than_linear_time_or_space(log: str):
    for name in sorted((*FRAGMENTS, *OWN)):
        for instance, version in TASKS.get(name, [("x-1", "1")])[:3]:
            started = time.monotonic()
            found = parse_log(name, log, instance, version)
            assert time.monotonic() - started < 5, name
            assert sum(map(len, found)) < 2**25 + 9 * len(log), name
    parse_official_log("p5js", log)
