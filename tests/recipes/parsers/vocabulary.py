"""Fragments of the logs that each parser reads, for texts made at random; every mark that its rules know is here."""

from __future__ import annotations

SPACES = ["", " ", "  ", "   ", "    ", "\t", "\n", "\n\n", "\r", "\x0b", "\x1c", "\x85", "\xa0", "\u2028"]
NOISE = [
    "a",
    "b",
    "x y",
    ".",
    ":",
    "-",
    ">",
    "(",
    ")",
    "[",
    "]",
    "é",
    "٣",
    "1",
    "23",
    "\x00",
    "\ud800",
    "\x1b[32m",
    "\x1b[",
]
_TIMES = [
    " (5 ms)",
    "(12ms)",
    " (1.5 s)",
    " (3s)",
    " (1.5s)",
    " (2 ms) ",
    "\xa0(7ms)",
    " 5ms",
    " 350 ms",
    " 7s",
    " (0.00s)",
]
_FILES = ["PASS", "PASS ", "FAIL ", "FAIL\t", "PASS\n", "a/b.test.js", *_TIMES]
_NUMBERED = ["1)", "12) ", "٣) ", "  1)", "  2) ", "    3) "]
_BROWSERS = [
    *("2KPhantomJS ", "2.1.1", " (Linux 0.0.0) ", " (Linux x86_64) ", "Chrome Headless ", "Chrome\nHeadless\n"),
    *("HeadlessChrome 99.1 (Linux 0.0) ", "Chrome 99.0.1 (Linux x) ", "Chrome Headless 9 (Linux y) ", "Chrome 9.1 ("),
    *(
        "FAILED",
        "FAILED\n",
        " FAILED\n",
        "\nFAILED\n",
        ") ",
        ")\t",
        "Linux",
        "Error:",
        "case ",
        ": mismatch",
        ":\nmismatch",
    ),
]
_MOCHA = ["✓", "✓ ", "✔ ", "✗ ", "✖ ", "✕ ", "○ ", "- ", " passing", "3 passing", "\n  3 passing", *_NUMBERED, *_TIMES]

FRAGMENTS: dict[str, list[str]] = {
    "calypso": [" ./node_modules/.bin/jest ", "\n  ✓ ", "\n    ✕ ", "✓", "✕", "Test Suites", "  ● ", *_TIMES],
    "bpmn_js": _BROWSERS,
    "chart_js": _BROWSERS,
    "openlayers": [*_BROWSERS, "\n  1)", "\ncase "],
    "carbon": _FILES,
    "react_pdf": _FILES,
    "grommet": [*_FILES, "\nFAIL ", "\nPASS\n"],
    "eslint": ["  1)", "\n  2) ", "Error", "TypeError: ", "AssertionError [ERR]: ", " Error"],
    "highlightjs": [*_MOCHA, "(1ms)(2ms)"],
    "jest": ["✓ ", "✕ ", "○ ", "✓", *_TIMES],
    "jest_json": ["[PASSED] ", "[FAILED] ", "[PASSED]", "[SKIPPED] "],
    "karma": ["Starting browser Chrome\n", "SUMMARY:", "✔ ", "✖ ", "\n  ✔ ", "\n    ✖ ", "✔"],
    "marked": [*_NUMBERED, "\n1) "],
    "next": [
        *(" xvfb-run ", "Starting browser Chrome", "AssertionError: #", "TOTAL", "\n    ✓ ", "\n  ✗ ", "✓", "✗"),
        *("ERROR", "LOG", "in", "Running:", ")\n\n\n  ", ")\n\n\n", "\n    1) ", "\n    ✓ x (", "("),
    ],
    "p5js": [
        *("<a>", "</a>", "<b>", "</b>", "<", "</", "a>", "/a>", "<ab", "b>", ">", "</ab>", "<ab>", "<a", "</a"),
        *("{", "}", "[", "]", "\n{", "\n}", "\n  1)", "\n  1) x\n    y\n      z:", "x:", ":"),
    ],
    "prismjs": [
        *("./node_modules/.bin/mocha tests/run.js --reporter json", "{", "}", '{"failures": [], "passes": []}', '"x"'),
        '{"failures": [{"fullTitle": "f"}], "passes": [{"fullTitle": "p"}, {"fullTitle": "f"}]}',
    ],
    "quarto_cli": [
        *("[smoke]", "[unit]", " > ", "...", "32mok", "31mFAILED", "34mINFO", "\ntest result:", "passed", "failed"),
        *("steps", "/tmp/abc.qmd", "/tmp/abc/", "/tmp/x1/", "/tmp/", "ERRORS", "failures:", "\n[unit] a ... "),
    ],
    "tap": ["ok 1 ", "not ok 2 ", "\nok 3 - ", "\n  ok 4 ", "# SKIP", "ok", "not ok"],
    "vitest": ["✓ ", "\u00d7 ", "↓ ", " [skipped]", "✓", *_TIMES],
    "immutable_js": ["✓ ", "✕ ", "[PASSED] ", "[FAILED] ", *_TIMES],
    "lighthouse": [
        *("running 3 test files", "./node_modules/.bin/mocha --reporter json", '"passes": [', '"failures": ['),
        *('"fullTitle": "', '",\n', '"fullTitle":\n"x",\n', "],", "]", *_MOCHA, *_FILES),
    ],
    "redis": ["[ok]: ", "[err]: ", "[skip]: ", "[ignore]:\t", " in tests/a.tcl", " in  b", " in ", *_TIMES],
    "jq": ["PASS: ", "FAIL: ", "PASS:", "FAIL:\t"],
    "doctest": [
        *(
            '<doctest binary="b">',
            "</doctest>",
            '<TestCase name="t">',
            "</TestCase>",
            '<SubCase name="s">',
            "</SubCase>",
        ),
        *(
            '<Expression success="true"/>',
            '<Expression success="false"/>',
            "<Expression/>",
            "<A>",
            "</A>",
            "&amp;",
            "&x;",
        ),
    ],
    "micropython_test": ["pass  ", "FAIL  ", "skip ", "pass", "\nskip  "],
    "googletest": ["[       OK ] ", "[  FAILED  ] ", "[OK]\t", "[  SKIPPED ] ", ", where GetParam() = (2)", *_TIMES],
    "gotest": ["--- PASS: ", "--- FAIL: ", "--- SKIP: ", "    --- PASS: ", " (0.00s)", " (1)", " ()", ")"],
    "maven": ["+ mvn -Dtest=", "-Dtest=A#b", "-Dtest= ", "[INFO] BUILD SUCCESS\n", "BUILD FAILURE", "BUILD ", "\n"],
    "ant": ["[junit] ", "[junit]\t[PASS] ", "    [junit] [FAIL] ", "[junit] [ERR]  ", "[PASS]", "\n"],
    "gradle_custom": [
        "a.B > c",
        " PASSED",
        " FAILED",
        "\nPASSED\n",
        "\nFAILED\n",
        "\nA > b\n",
        "\n> Task",
        " > ",
        "\n",
    ],
    "phpunit": ["Math (Tests\\Math)\n", "\n✔ ", "\n ✘ ", "\n ↩ ", "✔", " (x)", "_", " ()"],
    "minitest": ["test_a", ". ", " = ", "=", ".", "F", "E", "0.1 s = .", "\n"],
    "cucumber": ["Feature ", " .", " ..", " ...F", " .F", " ....x", "F", "\n"],
    "ruby_unit": ["test: ", "test_a:", ":\t", ": .", ": E", ": F", ": O", ": Ex", "\n  test: b: .", "\n"],
    "rspec_transformed_json": [" - passed", " - failed", " - pending", "a b", "\n"],
    "jekyll": ["test_a", ". ", "=", ".", "F", "E", " ..", " ...F", "\n"],
    "cargo": ["test ", " ... ", "ok", "FAILED", "ignored", "a::b", "\ntest a::b ... ok\n", " - should panic", "\n"],
}

TASKS: dict[str, list[tuple[str, str]]] = {
    "immutable_js": [("immutable-js__immutable-js-2006", "5"), ("immutable-js__immutable-js-2005", "5")],
    "jekyll": [(f"jekyll__jekyll-{number}", "1") for number in (9141, 8047, 8167, 8761, 8771)],
    "lighthouse": [("l-1", version) for version in ("9.5", "10.0", "10.2", "2.9", "3.0", "nan", "11")],
    "next": [("n-1", "1.27"), ("n-1", "1.26")],
}
"""Instance ids and versions for the parsers that choose by them."""
