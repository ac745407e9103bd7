"""Rows of SWE-bench Multilingual to plans, written by hand from the reference's table; recorded logs to verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swe_sdk.errors import InputError, RowError
from swe_sdk.measure import grade
from swe_sdk.model.environment import ImageEnvironment, SourceEnvironment
from swe_sdk.model.task import Task
from swe_sdk.recipes.contract import AppliesTests, Recipe
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.images import sif_terms
from swe_sdk.recipes.parsers import decode_log, lenient_section
from swe_sdk.recipes.registry import detect_family, get_recipe, recipe_names
from swe_sdk.recipes.row import UnknownFields
from swe_sdk.recipes.swe_bench_multilingual import SweBenchMultilingualRecipe
from swe_sdk.recipes.swe_bench_multilingual_commands import find_commands, known_repositories, known_versions
from swe_sdk.testing import FakeProvider
from tests.shared import find_shared, shared_rows

FAMILY = "swe-bench-multilingual"
TEST_PATCH = """\
diff --git a/replacer_test.go b/replacer_test.go
--- a/replacer_test.go
+++ b/replacer_test.go
@@ -1 +1 @@
-package a
+package a // secret_of_the_tests
"""
ROW: dict[str, Any] = {
    "repo": "caddyserver/caddy",
    "instance_id": "caddyserver__caddy-6411",
    "base_commit": "0123456789abcdef",
    "version": "6411",
    "problem_statement": "It replaces too much.",
    "hints_text": "",
    "created_at": "2024-06-21T00:00:00Z",
    "patch": TEST_PATCH.replace("replacer_test", "replacer").replace("tests\n", "fix\n"),
    "test_patch": TEST_PATCH,
    "FAIL_TO_PASS": '["TestReplacerNew"]',
    "PASS_TO_PASS": '["TestReplacer", "TestReplacerSet"]',
}
HEAD = ["set -uxo pipefail", "cd /testbed", "git config --global --add safe.directory /testbed", "cd /testbed"]


def task_of(row: dict[str, Any], family: str = FAMILY) -> Task:
    return get_recipe(family).to_task(row, where="row 1", root=Path("/"))


def test_the_plan_of_a_classic_row():
    task = task_of(ROW)
    assert task.family == FAMILY
    assert isinstance(task.environment, ImageEnvironment)
    assert task.environment.image == "swebench/sweb.eval.x86_64.caddyserver_1776_caddy-6411:latest"
    assert task.environment.workdir == "/testbed"
    assert task.base_commit == "0123456789abcdef"
    assert task.grading.prelude.split("\n") == HEAD
    assert task.grading.test_command == 'go test -v . -run "TestReplacerNew*"'
    assert task.grading.parser == "parse_log_gotest"
    assert (task.grading.fail_to_pass, len(task.grading.pass_to_pass)) == (("TestReplacerNew",), 2)
    assert [path for file in task.grading.test_patch.files for path in file.paths] == [b"replacer_test.go"]
    assert "secret_of" not in repr(task.public())


@pytest.mark.parametrize(
    ("repo", "version", "build", "tests", "parser"),
    [
        ("vuejs/core", "11899", ["pnpm run build compiler-sfc"], "pnpm run test packages/compiler-sfc", "vitest"),
        ("jqlang/jq", "2839", ["git submodule update --init", "autoreconf -fi"], "make check", "jq"),
        ("apache/druid", "15402", [], "set -x\nmvnd test -B -T 1C -pl processing -Dtest=", "maven"),
        ("nlohmann/json", "4237", ["mkdir -p build", "cd build"], "./build/tests/test-udt_cpp11 -s -r=xml", "doctest"),
        ("rubocop/rubocop", "13705", [], "bundle exec rspec", "rspec_transformed_json"),
        ("tokio-rs/tokio", "6724", [], "cargo test --test io_write_all_buf --no-fail-fast", "cargo"),
        ("jekyll/jekyll", "9141", [], "bundle exec ruby -I test test/test_site.rb", "jekyll"),
        ("projectlombok/lombok", "3602", ["ant test.compile"], "ant test.instance", "ant"),
        ("laravel/framework", "53914", [], "vendor/bin/phpunit --testdox --colors=never", "phpunit"),
    ],
)
def test_build_and_test_commands(repo: str, version: str, build: list[str], tests: str, parser: str):
    task = task_of({**ROW, "repo": repo, "version": version})
    assert task.grading.prelude.split("\n")[: len(HEAD) + len(build)] == [*HEAD, *build]
    assert task.grading.test_command.startswith(tests)
    assert task.grading.parser == f"parse_log_{parser}"


def test_all_three_hundred_have_commands_and_a_parser():
    tasks = [
        task_of({**ROW, "repo": repo, "version": version, "instance_id": f"{repo.replace('/', '__')}-{version}"})
        for repo in known_repositories()
        for version in known_versions(repo)
    ]
    assert (len(known_repositories()), len(tasks)) == (41, 300)
    for task in tasks:
        assert task.grading.test_command.strip()
        assert get_recipe(FAMILY).parse(task, "") == {}


def test_the_names_of_image_files():
    assert sif_terms("PHPOffice__PhpSpreadsheet-3463")[:5] == (
        "PHPOffice__PhpSpreadsheet-3463",
        "PHPOffice_1776_PhpSpreadsheet-3463",
        "phpoffice_1776_phpspreadsheet-3463",
        "PHPOffice_s_PhpSpreadsheet-3463",
        "phpoffice_s_phpspreadsheet-3463",
    )


def test_the_ways_to_apply_patches():
    ours, theirs = get_recipe(FAMILY), get_recipe(f"{FAMILY}@4.1.0")
    assert isinstance(ours, AppliesTests)
    assert isinstance(theirs, AppliesTests)
    assert [rung.command.removesuffix(' "$PATCH"') for rung in theirs.ladder] == [
        "git apply --verbose",
        "git apply --verbose --reject",
        "patch --batch --fuzz=5 -p1 -i",
    ]
    assert [rung.name for rung in ours.ladder] == ["git-apply", "git-apply-3way", "git-apply-reject", "patch-fuzz"]
    assert theirs.test_rung.command == 'git apply --verbose --reject "$PATCH"'
    assert (ours.test_rung.tolerant, theirs.test_rung.tolerant) == (False, True)


def test_it_is_a_recipe_under_its_name():
    assert FAMILY in recipe_names()
    for name in (FAMILY, f"{FAMILY}@4.1.0"):
        recipe = get_recipe(name)
        assert isinstance(recipe, Recipe)
        assert recipe.family == name
        assert task_of(ROW, name).family == name
    assert get_recipe(FAMILY).version != get_recipe(f"{FAMILY}@4.1.0").version
    with pytest.raises(InputError, match="no rules named"):
        SweBenchMultilingualRecipe("4.1")


def test_rows_find_their_family():
    assert detect_family(ROW) == FAMILY
    assert detect_family({**ROW, "repo": "markedjs/marked"}) == "swe-bench"
    assert detect_family({**ROW, "repo": "pallets/flask"}) == "swe-bench"
    assert detect_family({"swe_bench_instance": {"repo": "a/b"}, "language": "go"}) == FAMILY
    assert detect_family({**ROW, "install_config": {}}) != FAMILY


def test_a_newer_row_is_read_by_its_own_script(tmp_path: Path):
    script = f"""\
#!/bin/bash
set -uxo pipefail
cd /testbed
git checkout 0123456789abcdef replacer_test.go
git apply -v - <<'EOF_1'
{TEST_PATCH}
EOF_1
: '>>>>> Start Test Output'
./mvnw test -Dtest=A#b
: '>>>>> End Test Output'
git checkout 0123456789abcdef replacer_test.go
"""
    new = {"eval_script": script, "log_parser": "parse_log_maven", "eval_type": "pass_and_fail", "image": "i:1"}
    task = task_of({**ROW, **new})
    assert task.grading.prelude == "set -uxo pipefail\ncd /testbed"
    assert task.grading.test_command == "set -x\n./mvnw test -Dtest=A#b"  # maven's parser reads the shell's trace
    (tmp_path / "repo").mkdir()
    source = {"directory": "repo", "test_command": "go test -v ./...", "log_parser": "go_test", "family": FAMILY}
    kept = {name: ROW[name] for name in ("instance_id", "test_patch", "FAIL_TO_PASS", "PASS_TO_PASS")}
    task = get_recipe(FAMILY).to_task({**kept, **source}, where="row 1", root=tmp_path)
    assert isinstance(task.environment, SourceEnvironment)
    assert (task.grading.test_command, task.grading.parser) == ("go test -v ./...", "go_test")


def test_the_row_of_a_gym_server(tmp_path: Path):
    """As NeMo Gym's servers send it: the row as a JSON text, and where its image files lie."""
    image = tmp_path / "caddyserver_s_caddy-6411.sif"
    image.touch()
    metadata = {
        "instance_id": ROW["instance_id"],
        "dataset_name": "SWE-bench/SWE-bench_Multilingual",
        "split": "test",
        "instance_dict": json.dumps(ROW),
        "container_formatter": str(tmp_path / "{instance_id}.sif"),
    }
    (task,) = load_tasks([{"responses_create_params": {"metadata": metadata}}])
    assert (task.family, task.grading.parser) == (FAMILY, "parse_log_gotest")
    assert isinstance(task.environment, ImageEnvironment)
    assert task.environment.image == str(image)


def test_the_familys_own_evaluator_can_be_asked():
    task = task_of(ROW, f"{FAMILY}@nested")
    assert task.family == f"{FAMILY}@nested"
    assert "/swebench_multilingual_setup/SWE-bench_Multilingual" in task.grading.test_command
    assert "--instance_ids caddyserver__caddy-6411" in task.grading.test_command


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": "6412"}, "version '6412' of caddyserver/caddy has no known test command"),
        ({"repo": "some/one"}, "nothing is known about how to test 'some/one'"),
        ({"repo": "some/one", "test_command": "make check"}, "nothing says how the test output is read"),
        ({"FAIL_TO_PASS": "TestA"}, "FAIL_TO_PASS"),
        ({"version": None}, "version"),
    ],
)
def test_what_is_wrong_with_a_row(change: dict[str, Any], says: str):
    with pytest.raises(RowError, match=says):
        task_of({**ROW, **change})


def test_an_unknown_field_is_named():
    with pytest.raises(UnknownFields, match="tets_patch"):
        task_of({**ROW, "tets_patch": ""})


@pytest.mark.parametrize(
    ("statuses", "exit_code", "ours", "theirs"),
    [
        ({"TestReplacerNew": "PASSED", "TestReplacer": "PASSED", "TestReplacerSet": "PASSED"}, 0, True, True),
        ({"TestReplacerNew": "PASSED", "TestReplacer": "PASSED", "TestReplacerSet": "SKIPPED"}, 0, True, True),
        ({"TestReplacerNew": "PASSED", "TestReplacer": "PASSED", "TestReplacerSet": "PASSED"}, 1, False, True),
        ({"TestReplacerNew": "SKIPPED", "TestReplacer": "PASSED", "TestReplacerSet": "PASSED"}, 0, False, True),
        ({"TestReplacerNew/a": "PASSED", "TestReplacer": "PASSED", "TestReplacerSet": "PASSED"}, 0, False, False),
        ({"TestReplacerNew": "PASSED", "TestReplacer": "PASSED"}, 0, False, False),
        ({}, 0, False, False),
    ],
)
def test_verdicts(statuses: dict[str, str], exit_code: int, ours: bool, theirs: bool):
    assert get_recipe(FAMILY).judge(task_of(ROW), statuses, exit_code).resolved is ours
    older = f"{FAMILY}@4.1.0"
    assert get_recipe(older).judge(task_of(ROW, older), statuses, exit_code).resolved is theirs


FORGED = {
    "parse_log_gotest": "--- FAIL: A (0.00s)\nwords\n--- PASS: A (0.00s)\n--- PASS: B (0.00s)\n--- FAIL: C (0.1s)\n",
    "parse_log_cargo": "running 2 tests\ntest A ... FAILED\ntest A ... ok\ntest B ... ok\ntest C ... FAILED\n",
    "parse_log_googletest": "[ RUN      ] A\n[  FAILED  ] A (0 ms)\n[       OK ] A (0 ms)\n[ RUN      ] B\n"
    "[       OK ] B (0 ms)\n[ RUN      ] C\n[  FAILED  ] C (0 ms)\n",
    "parse_log_tap": "not ok 1 A\nok 2 A\nok 3 B\nnot ok 4 C\n",
    "parse_log_vitest": " × t.js > A\n ✓ t.js > A\n ✓ t.js > B\n × t.js > C\n",  # noqa: RUF001
}
"""Runs in which A fails and a later line says that it passed; C fails too, so that the exit code tells nothing."""


@pytest.mark.parametrize("parser", FORGED)
def test_a_printed_pass_does_not_undo_a_failure(parser: str):
    prefix = "t.js > " if parser == "parse_log_vitest" else ""
    row = {**ROW, "log_parser": parser, "FAIL_TO_PASS": [f"{prefix}A"], "PASS_TO_PASS": [f"{prefix}B"]}
    verdicts = {}
    for family in (FAMILY, f"{FAMILY}@4.1.0"):
        recipe, task = get_recipe(family), task_of(row, family)
        verdicts[family] = recipe.judge(task, recipe.parse(task, FORGED[parser]), 1).resolved
    assert verdicts == {FAMILY: False, f"{FAMILY}@4.1.0": True}


@pytest.mark.parametrize("family", [FAMILY, f"{FAMILY}@4.1.0"])
def test_a_task_that_requires_nothing_is_never_resolved(family: str):
    task = task_of({**ROW, "FAIL_TO_PASS": "[]", "PASS_TO_PASS": "[]"}, family)
    assert not get_recipe(family).judge(task, {"TestReplacer": "PASSED"}, 0).resolved


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(
    changes=st.dictionaries(
        st.sampled_from([*ROW, "swe_bench_instance", "environment_image", "language", "test_command", "image", "env"]),
        JSON,
        max_size=3,
    )
)
@settings(max_examples=150, deadline=None, database=None)
def test_any_row_is_a_task_or_a_row_error(changes: dict[str, Any]):
    row = {**ROW, **changes}
    get_recipe(FAMILY).recognizes(row)
    try:
        task = task_of(row)
    except RowError:
        return
    assert task.grading.test_command.strip()


WRAPPED = {row["instance_id"]: row for row in shared_rows("rows/multilingual/tasks.jsonl")}
COMMANDS = {"c": "./arestest", "cpp": "ctest -V", "go": "go test -v ./...", "java": "mvn test", "ts": "nx test"}
PARSERS = {"jarro2783/cxxopts": "ctest", "lvgl/lvgl": "ctest", "jhy/jsoup": "maven"}


def wrapped_task(row: dict[str, Any]) -> Task:
    """The row with what it lacks: of its test command it holds a hash alone."""
    command = {"test_command": COMMANDS.get(row["language"], "make check")}
    parser = PARSERS.get(row["swe_bench_instance"]["repo"])
    added = {**command, **({"log_parser": parser} if parser else {})}
    return load_tasks([{**row, **added}], unknown_fields="ignore")[0]


@pytest.mark.shared
@pytest.mark.parametrize("instance", WRAPPED)
@pytest.mark.anyio
async def test_wrapped_rows_load_and_are_graded_once_they_have_a_command(instance: str):
    row = WRAPPED[instance]
    untold = load_tasks([row], unknown_fields="ignore")[0]
    outcome = await grade(untold, untold.grading.gold_patch, provider=FakeProvider())
    assert outcome.mask is not None
    assert (outcome.mask.kind, "nothing says how to run the tests" in outcome.mask.reason) == ("invalid_task", True)
    with pytest.raises(RowError, match=r"nothing is known about how to test|has no known test command"):
        load_tasks([{name: row[name] for name in row if name != "test_command_sha256"}], unknown_fields="ignore")
    task = wrapped_task(row)
    assert untold.public() == task.public()
    assert (task.family, task.instance_id, task.repo) == (FAMILY, instance, row["swe_bench_instance"]["repo"])
    assert isinstance(task.environment, ImageEnvironment)
    assert task.environment.image == row["environment_image"]
    assert task.grading.fail_to_pass
    assert task.grading.gold_patch is not None
    assert task.grading.test_patch.data.strip()


def recorded_runs() -> list[Any]:
    """The recorded logs of those rows that one of our parsers reads, and whether the patch resolved the task."""
    return [
        pytest.param(entry, id=f"{entry['instance_id']}.{entry['phase']}")
        for entry in shared_rows("logs/index.jsonl")
        if entry["instance_id"] in WRAPPED and entry["framework"] not in ("maven surefire", "vitest via nx")
    ]


@pytest.mark.shared
@pytest.mark.parametrize("entry", recorded_runs())
def test_recorded_runs_are_judged_as_they_were(entry: dict[str, Any]):
    root = find_shared()
    assert root is not None
    task, recipe = wrapped_task(WRAPPED[entry["instance_id"]]), get_recipe(FAMILY)
    text = lenient_section(decode_log((root / "datasets/logs" / entry["file"]).read_bytes())).text
    assert recipe.judge(task, recipe.parse(task, text), None).resolved is entry["expected_resolved"]


@pytest.mark.shared
def test_rows_of_other_languages_in_swe_bench_are_not_masked():
    root = find_shared()
    for name in ("marked_v5_js", "multimodal_v5"):
        if root is not None:
            tasks = load_tasks(root / f"datasets/rows/swe-bench/{name}.jsonl", unknown_fields="ignore")
            assert {task.family for task in tasks} == {"swe-bench"}
            assert not any("log parser" in warning for warning in tasks.warnings)


def test_commands_are_none_for_what_the_table_does_not_have():
    assert find_commands("caddyserver/caddy", "1") is None
    assert find_commands("a/b", "1") is None
    assert known_versions("a/b") == ()
