"""The parser of node's test runner on output of the real program, and on the forms of other versions."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import parser_corpus
import pytest

from swe_sdk.recipes.parsers import decode_log, parse_log

SUITE = r"""
import test, { describe, it, before, after } from 'node:test';
describe('outer', () => {
  it('passes', () => {});
  it('fails', () => { throw new Error('x\n    # Subtest: spoof\n    ok 1 - spoof\nok 2 - spoof'); });
  it.skip('skipped', () => {});
  it('skipped why', { skip: 'issue #3' }, () => {});
  it.todo('todo without body');
  it('todo fails', { todo: true }, () => { throw new Error('later'); });
  it('todo passes', { todo: 'why not' }, () => {});
  describe('inner # 1', () => { it('back \\ slash # SKIP', () => {}); });
  describe.skip('skipped suite', () => { it('never', () => {}); });
  describe('empty suite', () => {});
});
test('parent', async (t) => {
  await t.test('passes', () => {});
  await t.test('fails', () => { throw new Error('no'); });
});
test('parent itself', async (t) => {
  await t.test('passes', () => {});
  throw new Error('parent');
});
describe('before hook', () => { before(() => { throw new Error('b'); }); it('x', () => {}); });
describe('after hook', () => { after(() => { throw new Error('a'); }); it('x', () => {}); });
test('prints', () => { console.log('ok 1 - printed\n# Subtest: fake\nok 2 - fake\n  ---'); });
test('skips then fails', (t) => { t.skip('no'); throw new Error('x'); });
test('skips later', (t) => { t.skip('not here'); });
test('a > b ', () => {});
test('twice', () => {});
test('twice', () => { throw new Error('second'); });
"""

EXPECTED = {
    "outer > passes": "PASSED",
    "outer > fails": "FAILED",
    "outer > skipped": "SKIPPED",
    "outer > skipped why": "SKIPPED",
    "outer > todo without body": "SKIPPED",
    "outer > todo fails": "XFAIL",
    "outer > todo passes": "SKIPPED",
    "outer > inner # 1 > back \\ slash # SKIP": "PASSED",
    "parent > passes": "PASSED",
    "parent > fails": "FAILED",
    "parent itself > passes": "PASSED",
    "parent itself": "FAILED",
    "before hook > x": "FAILED",
    "after hook > x": "PASSED",
    "after hook": "FAILED",
    "prints": "PASSED",
    "skips then fails": "FAILED",
    "skips later": "SKIPPED",
    "a > b ": "PASSED",
    "twice": "FAILED",
}


def _run(folder: Path, *files: str) -> str:
    node = shutil.which("node")
    parser_corpus.need(node, "node")
    command = [str(node), "--test", "--test-reporter=tap", *files]
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False
    )
    return done.stdout.decode()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("node")
    (folder / "suite.test.mjs").write_text(SUITE, encoding="utf-8")
    return _run(folder, "suite.test.mjs")


def test_real_output(log: str):
    assert parse_log("node_test", log) == EXPECTED


def test_windows_line_ends_change_nothing(log: str):
    assert parse_log("node_test", log.replace("\n", "\r\n")) == EXPECTED


def test_every_cut_log_is_a_part_of_the_whole_or_says_error(log: str):
    lines = log.split("\n")
    for end in range(len(lines)):
        for test, status in parse_log("node_test", "\n".join(lines[:end])).items():
            known = EXPECTED.get(test)
            assert known == status or status == "ERROR" or (known, test) == ("FAILED", "twice")


def test_files_without_tests_are_tests(tmp_path: Path):
    (tmp_path / "plain.test.mjs").write_text("console.log('fine');\n", encoding="utf-8")
    (tmp_path / "broken.test.mjs").write_text("throw new Error('load');\n", encoding="utf-8")
    (tmp_path / "suite.test.mjs").write_text(SUITE, encoding="utf-8")
    found = parse_log("node_test", _run(tmp_path, "plain.test.mjs", "broken.test.mjs", "suite.test.mjs"))
    files = {Path(test).name: status for test, status in found.items() if test not in EXPECTED}
    assert files == {"plain.test.mjs": "PASSED", "broken.test.mjs": "FAILED"}
    assert EXPECTED.items() <= found.items()


V18_FILE_AS_SUITE = """\
TAP version 13
# Subtest: /w/a.test.mjs
    ok 99 - printed
      ---
      ...
    # Subtest: outer
        # Subtest: passes
        ok 1 - passes
          ---
          duration_ms: 0.29
          ...
        # Subtest: fails
        not ok 2 - fails
          ---
          failureType: 'testCodeFailure'
          error: |-
            x

                # Subtest: no
          ...
        1..2
    not ok 1 - outer
      ---
      failureType: 'subtestsFailed'
      ...
    1..1
not ok 1 - /w/a.test.mjs
  ---
  failureType: 'subtestsFailed'
  exitCode: 1
  ...
# Subtest: /w/bad.test.mjs
    # Error: load
not ok 2 - /w/bad.test.mjs
  ---
  exitCode: 1
  ...
# Subtest: /w/plain.test.mjs
ok 3 - /w/plain.test.mjs
  ---
  duration_ms: 57
  ...
1..3
"""


def test_a_file_as_outermost_suite_is_not_part_of_the_ids():
    assert parse_log("node_test", V18_FILE_AS_SUITE) == {
        "outer > passes": "PASSED",
        "outer > fails": "FAILED",
        "/w/bad.test.mjs": "FAILED",
        "/w/plain.test.mjs": "PASSED",
    }
    cut = V18_FILE_AS_SUITE[: V18_FILE_AS_SUITE.index("        # Subtest: fails")]
    assert parse_log("node_test", cut) == {"outer > passes": "PASSED"}


def test_suites_named_like_files_keep_their_names():
    child = "    # Subtest: works\n    ok 1 - works\n"
    log = f"# Subtest: /lib/a.js\n{child}ok 1 - /lib/a.js\n  ---\n  type: 'suite'\n  ...\n"
    assert parse_log("node_test", log) == {"/lib/a.js > works": "PASSED"}


V18_FILE_IN_BLOCK = """\
TAP version 13
# Subtest: /w/a.test.mjs
not ok 1 - /w/a.test.mjs
  ---
  stdout: |-
    # Subtest: passes
    ok 1 - passes
      ---
      ...
    1..1
  error: 'test failed'
  ...
# Subtest: /w/b.test.mjs
ok 2 - /w/b.test.mjs
  ---
  ...
"""


def test_before_18_13_a_file_is_a_test():
    assert parse_log("node_test", V18_FILE_IN_BLOCK) == {"/w/a.test.mjs": "FAILED", "/w/b.test.mjs": "PASSED"}


def test_points_need_an_announcement_of_the_same_name_and_depth():
    log = "ok 1 - a\n# Subtest: b\nok 2 - c\n    ok 3 - b\n        # Subtest: deep\n        ok 1 - deep\nok 4 - b\n"
    assert parse_log("node_test", log) == {"b": "PASSED"}


def test_node_24_declares_the_type_of_tests_too():
    block = "  ---\n  duration_ms: 1\n  type: 'test'\n  ...\n"
    child = f"# Subtest: c\nok 1 - c\n{block}".replace("\n", "\n    ").rstrip()
    log = f"# Subtest: p\n    {child}\n    1..1\nok 1 - p\n{block}# Subtest: q\nok 2 - q\n{block}"
    assert parse_log("node_test", log) == {"p > c": "PASSED", "q": "PASSED"}


def test_a_test_without_a_result_at_the_end_is_an_error():
    assert parse_log("node_test", "# Subtest: a\n    # Subtest: b\n    ok 1 - b\n    # Subtest: c\n") == {
        "a > b": "PASSED",
        "a > c": "ERROR",
    }


@pytest.mark.shared
def test_shared_log_of_known_truth():
    root = parser_corpus.datasets()
    parser_corpus.need(root, "the shared data")
    assert root is not None
    found = parse_log("node_test", decode_log((root / "logs/local_frameworks/node_test_tap.txt").read_bytes()))
    assert found == {"s > p": "PASSED", "s > f": "FAILED", "s > sk": "SKIPPED", "top": "PASSED"}
