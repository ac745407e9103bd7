"""Logs in the form of the official parsers for which there is no recorded log, made by repeating a typical block."""

from __future__ import annotations

from typing import Final

_HEADS: Final = {
    "calypso": "+ ./node_modules/.bin/jest client\n",
    "karma": "Starting browser Chrome\n",
    "next": "+ xvfb-run npm test\nStarting browser Chrome\n",
    "lighthouse": "running 12 test files\n",
    "prismjs": '+ ./node_modules/.bin/mocha tests/run.js --reporter json\n{"failures": [], "passes": [\n',
    "doctest": '<?xml version="1.0"?>\n<doctest binary="t">\n',
}
_TAILS: Final = {
    "prismjs": '{"fullTitle": "last"}]}\n',
    "doctest": "</doctest>\n",
}
_MOCHA: Final = "  Suite {i}\n    inner\n      ✔ does one thing ({i}ms)\n      {i}) does another thing\n\n"
_FILES: Final = "PASS src/components/part{i}.test.js (5.{i} s)\n  console.log\n    words\n\nFAIL src/b{i}.js\n\n"
_JUNK: Final = "INFO [launcher]: something that a browser prints while it works, {i} of many\n"
_BLOCKS: Final = {
    "calypso": "PASS client/a{i}.js\n  suite {i}\n    ✓ does one thing ({i}ms)\n    ✕ does another thing\n",
    "bpmn_js": f"{_JUNK}HeadlessChrome 99.0.1 (Linux 0.0.0) modeling - does {{i}} FAILED\n\tError: x\n\tat y\n",
    "chart_js": f"{_JUNK}Chrome 99.0.1 (Linux x86_64) controllers.bar should {{i}} FAILED\n\tError: x\n\tat y\n",
    "openlayers": f"{_JUNK}Chrome Headless 99.0 (Linux x86_64) ol.Map does {{i}} FAILED\n\tError: x\n\tat y\n",
    "carbon": _FILES,
    "react_pdf": _FILES,
    "grommet": _FILES,
    "jest_json": "[PASSED] suite > inner > does {i}\n[FAILED] suite > does not {i}\nsome words of the runner\n",
    "immutable_js": "PASS __tests__/a{i}.js\n  suite\n    ✓ does one thing ({i} ms)\n    ✕ does another\n",
    "karma": "  Suite {i}\n    ✔ does one thing\n    ✖ does another thing\n    inner {i}\n      ✔ more\n",
    "next": "  Suite {i}\n    ✓ does one thing\n    ✗ does another thing\nLOG: 'words {i}'\n",
    "lighthouse": _MOCHA,
    "p5js": "  <p>{i}</p>\n  ✓ does\n  {i}) suite\n       inner\n         it:\n     Error: x\n{{\n  a: 1\n}}\n",
    "prismjs": '{{"title": "does {i}", "fullTitle": "languages/a - {i}", "duration": {i}, "err": {{}}}},\n',
    "quarto_cli": "[smoke] > /tmp/abc{i}.qmd ... \x1b[32mok\x1b[0m (3s)\n[unit] > b{i} ... 31mFAILED\nwords\n",
    "redis": "[ok]: does {i} ({i} ms)\n[err]: does not {i} in tests/a.tcl\nexpected 1\n[skip]: other {i}\n",
    "jq": "PASS: tests/a{i}\nFAIL: tests/b{i}\nmake[3]: Entering directory '/testbed/{i}'\n",
    "doctest": '<TestCase name="t{i}"><SubCase name="a"><Expression success="true"><Original>x</Original></Expression>'
    "</SubCase></TestCase>\n",
    "micropython_test": "pass  basics/a{i}.py\nFAIL  basics/b{i}.py\nskip  basics/c{i}.py\n",
    "maven": "+ mvn test -Dtest=a.B#c{i}\n[INFO] Scanning for projects...\n[INFO] Tests run: 1\n[INFO] BUILD SUCCESS\n",
    "ant": "    [junit] [PASS] a.B{i}\n    [junit] [FAIL] a.C{i}\n    [javac] Compiling 1 source file to /a/b\n",
    "gradle_custom": "a.b.C > d{i} PASSED\n\na.b.C > e{i} FAILED\n    AssertionError at C.java:12\n> Task :x\n",
    "minitest": "test_a{i}. TestB = 0.00 s = .\ntest_c{i}. TestB = 0.01 s = F\nsome words of jekyll\n",
    "cucumber": "Feature: does {i} ....\nother words {i} ...F\nsome words of jekyll\n",
    "jekyll": "test_a{i}. TestB = 0.00 s = .\ntest_c{i}. TestB = 0.01 s = F\nsome words of jekyll\n",
}
TASKS: Final = {
    "immutable_js": ("immutable-js__immutable-js-2006", "5"),
    "jekyll": ("jekyll__jekyll-9141", "4"),
    "lighthouse": ("lighthouse-1", "10.0"),
    "next": ("next-1", "1.26"),
}
"""The instance id and the version of a task, for the parsers that go by them."""


def sample_log(name: str, least_bytes: int = 100_000) -> str:
    """A log that the parser of that name (without prefix) reads; raises KeyError where none is known."""
    block = _BLOCKS[name]
    blocks = [block.format(i=index) for index in range(least_bytes // len(block) + 1)]
    return _HEADS.get(name, "") + "".join(blocks) + _TAILS.get(name, "")


def sample_names() -> tuple[str, ...]:
    """The names that :func:`sample_log` takes."""
    return tuple(_BLOCKS)
