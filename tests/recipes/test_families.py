"""What the families decide: our rules, and the reference's where a task asks for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swe_sdk.errors import InputError, RowError, UnknownFamily, UnknownParser
from swe_sdk.model.environment import ImageEnvironment
from swe_sdk.model.task import Task
from swe_sdk.recipes.contract import Recipe
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.nv_internal_scripts import environment_lines, last_line
from swe_sdk.recipes.registry import get_recipe
from swe_sdk.recipes.swe_bench_ext_commands import reads_files, with_flags
from swe_sdk.recipes.swe_bench_ext_frameworks import FRAMEWORKS
from swe_sdk.recipes.swe_rebench import without_time

COMMON: dict[str, Any] = {"instance_id": "o__r-1", "repo": "o/r", "base_commit": "abc"}
EXT: dict[str, Any] = {
    **COMMON,
    "image": "an:image",
    "test_command": "pytest tests",
    "test_framework": "pytest",
    "FAIL_TO_PASS": ["t.py::TestA::test_add"],
    "PASS_TO_PASS": '["t.py::test_old"]',
}
REBENCH: dict[str, Any] = {
    **COMMON,
    "image_name": "an:image",
    "install_config": {"install": "make", "test_cmd": ["a", "b"], "log_parser": "parse_log_js_4"},
    "FAIL_TO_PASS": ["one"],
    "PASS_TO_PASS": ["two"],
}
NV: dict[str, Any] = {
    **COMMON,
    "dockerhub_tag": "tag",
    "run_script": "echo 'it''s'",
    "parser_script": "x = 1",
    "selected_test_files_to_run": "['a b.js', \"c'd.js\"]",
    "before_repo_set_cmd": "git reset\ngit checkout abcdef1 -- t.js\n",
    "fail_to_pass": """["one", 'two "quoted"']""",
    "pass_to_pass": "[]",
}
R2E: dict[str, Any] = {
    "repo_name": "pillow",
    "docker_image": "an:image",
    "commit_hash": "abc",
    "expected_output_json": json.dumps({"\x1b[1mC.test_a\x1b[0m": "PASSED", "test_b - why": "FAILED"}),
}
ROWS = {"swe-bench-ext": EXT, "swe-rebench": REBENCH, "nv-internal-1": NV, "r2e-gym": R2E}


def task_of(row: dict[str, Any], family: str | None = None, **changes: Any) -> tuple[Recipe, Task]:
    (task,) = load_tasks([{**row, **changes}], family=family)
    return get_recipe(task.family), task


def resolved(recipe: Recipe, task: Task, statuses: dict[str, str], exit_code: int | None = 0) -> bool:
    return recipe.judge(task, statuses, exit_code).resolved


@pytest.mark.parametrize("family", ROWS)
def test_rows_are_recognized_and_tasks_survive_being_written_down(family):
    for name in (family, f"{family}@legacy"):
        recipe, task = task_of(ROWS[family], name)
        assert recipe.family == task.family == name
        assert Task.model_validate(json.loads(json.dumps(task.private()))) == task
    assert task_of(ROWS[family])[1].family == family
    assert get_recipe(family).version != get_recipe(f"{family}@legacy").version
    with pytest.raises(InputError, match="no rules named 'lenient'"):
        get_recipe(f"{family}@lenient")
    with pytest.raises(RowError, match="no rules named"):
        load_tasks([{**ROWS[family], "family": f"{family}@lenient"}])


def test_rules_of_swe_bench_are_named_too():
    assert get_recipe("swe-bench@4.1.0").family == "swe-bench@4.1.0"
    assert get_recipe("swe-bench").family == "swe-bench"
    with pytest.raises(UnknownFamily):
        get_recipe("swe-bench-extra@legacy")


@pytest.mark.parametrize("family", ROWS)
def test_nothing_is_resolved_for_nothing(family):
    """SW-28: an empty required set never resolves a task, whatever else passed."""
    recipe, task = task_of(ROWS[family])
    nothing = task.model_copy(
        update={"grading": task.grading.model_copy(update={"fail_to_pass": (), "pass_to_pass": (), "expected": {}})}
    )
    assert not resolved(recipe, nothing, {"some::test": "PASSED"})
    assert not resolved(recipe, nothing, {})
    assert not resolved(recipe, task, {})


# -- swe-bench-ext ------------------------------------------------------------------------------------------------


def test_ids_of_the_extension_agree_exactly_or_in_one_form():
    recipe, task = task_of(EXT)
    assert resolved(recipe, task, {"t.TestA::test_add": "PASSED", "t::test_old": "PASSED"})
    assert "normalized_ids" in recipe.judge(task, {"t.TestA::test_add": "PASSED"}, 0).flags
    for others in ("t.py::TestA::test_add_more", "u.py::TestB::test_add", "test_add"):  # SW-18
        assert not resolved(recipe, task, {others: "PASSED", "t.py::test_old": "PASSED"})
    both = {"t.py::TestA::test_add": "PASSED", "t.TestA::test_add": "FAILED", "t.py::test_old": "PASSED"}
    assert resolved(recipe, task, both), "an exact id goes before one that is alike"


@pytest.mark.parametrize(
    ("reported", "loosely"),
    [
        ({"t.py::TestA::test_add_more": "PASSED"}, True),  # a part of another id
        ({"other::test_add": "PASSED"}, True),  # the last part
        ({"t": "FAILED", "t::TestA::test_add": "PASSED"}, True),  # found directly first
        ({"t": "FAILED"}, False),  # its package failed
        ({"something": "PASSED"}, False),
    ],
)
def test_the_reference_matches_loosely(reported, loosely):
    recipe, task = task_of(EXT, "swe-bench-ext@legacy", PASS_TO_PASS=[])
    found = recipe.parse(task, "")
    assert found == {}
    statuses = {name.replace(".py", ""): status for name, status in reported.items()}
    assert resolved(recipe, task, statuses) is loosely
    assert not resolved(*task_of(EXT), statuses)


def test_the_reference_invents_build_steps_and_we_do_not():
    for name in ("pkg::build", "pkg::compile"):
        row = {**EXT, "FAIL_TO_PASS": [name], "PASS_TO_PASS": []}
        assert resolved(*task_of(row, "swe-bench-ext@legacy"), {"x::y": "PASSED"})
        assert not resolved(*task_of(row), {"x::y": "PASSED"})  # SW-19


def test_results_come_from_files_and_the_references_from_the_first_block_in_the_log():
    """SW-19: a block that the submission prints wins there, and is nothing here."""
    report = '<testsuites><testcase classname="t.TestA" name="test_add">{}</testcase></testsuites>'
    block = "<<<SWE_BENCH_EXT_RESULT_FILE_START>>>\n{}\n<<<SWE_BENCH_EXT_RESULT_FILE_END>>>\n"
    log = block.format(report.format("")) + block.format(report.format("<failure/>"))
    recipe, task = task_of(EXT)
    files = {"output.xml": report.format("<failure/>").encode()}
    assert recipe.parse_results(task, log, files) == {"t.TestA::test_add": "FAILED"}
    assert recipe.parse_results(task, log, {}) == {}
    recipe, task = task_of(EXT, "swe-bench-ext@legacy")
    assert recipe.parse(task, log) == {"t::TestA::test_add": "PASSED"}


def test_unknown_frameworks_load_and_are_not_read():
    recipe, task = task_of(EXT, test_framework="abacus")
    with pytest.raises(UnknownParser, match="abacus"):
        recipe.parse(task, "")


COMMANDS = {
    "pytest": ("pytest -q", 'pytest -q --junitxml="$SWE_SDK_REPORTS/output.xml"'),
    "unittest": ("python -m unittest", "python -m unittest"),
    "go": ("go test ./...", "go test ./... -json"),
    "jest": ("npx jest", 'npx jest --json --outputFile="$SWE_SDK_REPORTS/output.json"'),
    "vitest": ("npx vitest run", 'npx vitest run --reporter=json --outputFile="$SWE_SDK_REPORTS/output.json"'),
    "mocha": ("npx mocha", 'npx mocha --reporter json --reporter-options output="$SWE_SDK_REPORTS/output.json"'),
    "bun": ("bun test", "bun test"),
    "gtest": ("./tests", './tests --gtest_output=json:"$SWE_SDK_REPORTS/output.json"'),
    "cargo-nextest": ("cargo nextest run", "cargo nextest run"),
    "ctest": ("make && ctest", 'make && ctest --output-on-failure --output-junit "$SWE_SDK_REPORTS/output.xml"'),
    "xctest": ("swift test", 'swift test --parallel --num-workers=1 --xunit-output "$SWE_SDK_REPORTS/output.xml"'),
    "testing": ("swift test", 'swift test --disable-xctest --parallel --xunit-output "$SWE_SDK_REPORTS/output.xml"'),
    "cppunit": ("./t", "./t"),
    "busted": ("busted", 'busted --output=junit -Xoutput "$SWE_SDK_REPORTS/output.xml"'),
    "luaunit": ("lua t.lua", 'lua t.lua -o junit -n "$SWE_SDK_REPORTS/output.xml"'),
    "telescope": ("nvim -l t.lua", "nvim -l t.lua"),
    "lust": ("lua t.lua", "lua t.lua"),
    "minitest": ("nvim -l t.lua", "nvim -l t.lua"),
    "bespoke_libgeos": ("./test_geos_unit", "./test_geos_unit"),
    "tap": ("npx tap", "npx tap"),
    "tape": ("node t.js", "node t.js"),
    "hardhat": ("npx hardhat test", "npx hardhat test"),
}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_each_of_the_24_frameworks_gets_its_flags(framework):
    assert len(FRAMEWORKS) == 24
    if framework in ("junit", "maven"):
        assert "*/target/surefire-reports*/TEST-*.xml" in with_flags(framework, "mvn test")
        assert "*/build/test-results*/TEST-*.xml" in with_flags("junit", "./gradlew test")
        return
    command, wanted = COMMANDS[framework]
    assert with_flags(framework, command) == wanted
    assert reads_files(framework, command) == ("$SWE_SDK_REPORTS" in wanted)


@pytest.mark.parametrize(
    "command",
    ["./run.sh", "bash t.sh", "npm run test", "make test", "CI=1 yarn test", "x='", "jest | tee log", "jest || true"],
)
def test_scripts_do_not_hand_flags_on_so_their_output_is_read(command):
    assert with_flags("jest", command) == command
    recipe, task = task_of(EXT, test_framework="jest", test_command=command)
    assert task.grading.result_files == ()
    assert recipe.parse_results(task, json.dumps({"testResults": []}), {}) == {}


# -- swe-rebench --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["n [12 ms]", "n [12ms]", "n in 0.1 sec", "n (3s)", "n (1.5 s)", "n  (0.25 ms)", "n in 3 msec"]
)
def test_times_are_no_part_of_a_name(name):
    assert without_time(name) == "n"


@pytest.mark.parametrize("name", ["n (3)", "n [x]", "in 4 steps", "f(3s) works", "n [12 apples]"])
def test_other_endings_are(name):
    assert without_time(name) == name


def test_results_of_rebench_are_read_without_their_times():
    recipe, task = task_of(REBENCH, FAIL_TO_PASS=["one (3 ms)"])
    statuses = recipe.parse(task, "✓ one (0.25s)\n✓ two (2 ms)\n")
    assert statuses == {"one": "PASSED", "two": "PASSED"}
    assert resolved(recipe, task, statuses)
    assert recipe.parse(task, "✕ one (1 ms)\n✓ one (2 ms)\n") == {"one": "FAILED"}
    assert not resolved(recipe, task, {"one": "PASSED", "two": "SKIPPED"})


def test_install_steps_come_before_the_tests_and_may_fail():
    _, task = task_of(REBENCH)
    assert task.grading.prelude == "export _JAVA_OPTIONS=-Djava.net.preferIPv6Addresses=false\nmake\n"
    assert task.grading.test_command == "a\nb"


def test_an_unknown_parser_of_rebench():
    config = {**REBENCH["install_config"], "log_parser": "parse_log_cobol"}
    with pytest.raises(UnknownParser):
        (lambda pair: pair[0].parse(pair[1], ""))(task_of(REBENCH, install_config=config))
    recipe, task = task_of(REBENCH, "swe-rebench@legacy", install_config=config)
    assert recipe.parse(task, "✓ one") == {}
    with pytest.raises(RowError, match="'log_parser' is missing"):
        task_of(REBENCH, install_config={"test_cmd": "make check"})
    assert task_of(REBENCH, install_config={"test_cmd": "pytest"})[1].grading.parser == "parse_log_pytest"


def test_the_reference_resolves_a_rebench_task_without_tests():
    row = {**REBENCH, "FAIL_TO_PASS": [], "PASS_TO_PASS": []}
    assert resolved(*task_of(row, "swe-rebench@legacy"), {})
    assert not resolved(*task_of(row), {"x": "PASSED"})


# -- nv-internal-1 ------------------------------------------------------------------------------------------------


def test_values_of_nv_rows_are_parsed_never_evaluated(tmp_path):
    """SW-23"""
    _, task = task_of(NV)
    assert task.grading.fail_to_pass == ("one", 'two "quoted"')
    assert "'a b.js,c'\"'\"'d.js'" in task.grading.test_command
    bomb = f"[open({str(tmp_path / 'x')!r}, 'w')]"
    with pytest.raises(RowError, match="holds a text that is no list"):
        task_of(NV, fail_to_pass=bomb)
    assert not (tmp_path / "x").exists()


def test_only_the_last_line_prepares_and_not_where_the_tests_come_as_a_patch():
    assert last_line("a\nb\n\n  c  \n\n") == "c"
    assert task_of(NV)[1].grading.prelude == "git checkout abcdef1 -- t.js\n"
    patch = "--- a/t.js\n+++ b/t.js\n@@ -1 +1 @@\n-a\n+b\n"
    assert task_of(NV, test_patch=patch)[1].grading.prelude == ""
    _, legacy = task_of(NV, "nv-internal-1@legacy", test_patch=patch)
    assert legacy.grading.prelude == "git checkout abcdef1 -- t.js\n"
    assert not legacy.grading.test_patch.exists


def test_variables_of_dockerfiles_are_exported_and_nothing_in_them_runs():
    text = "FROM x\nENV A=1 B=\"two words\" C='$HOME'\nenv D $(touch x) `id` $A\n"
    text += "ENV PATH=/x:$PATH \\\n  E=5\nRUN ENV F=6\n"
    assert environment_lines(text) == [
        'export A="1"',
        'export B="two words"',
        'export C="\\$HOME"',
        'export D="\\$(touch x) \\`id\\` $A"',
        'export PATH="/x:$PATH"',
        'export E="5"',
    ]


def test_results_of_nv_tasks():
    recipe, task = task_of(NV)
    output = {"tests": [{"name": "one", "status": "PASSED"}, {"name": 'two "quoted"', "status": "PASSED"}, 4, {}]}
    files = {"output.json": json.dumps(output).encode()}
    statuses = recipe.parse_results(task, "", files)
    assert resolved(recipe, task, statuses)
    assert recipe.parse_results(task, json.dumps(output), {}) == {}, "never from the log"
    twice = {"tests": [*output["tests"], {"name": "one", "status": "FAILED"}]}
    files = {"output.json": json.dumps(twice).encode()}
    assert not resolved(recipe, task, recipe.parse_results(task, "", files))
    legacy, old_task = task_of(NV, "nv-internal-1@legacy")
    assert resolved(legacy, old_task, legacy.parse_results(old_task, "", files)), "what passed once has passed there"


# -- r2e-gym ------------------------------------------------------------------------------------------------------


SUMMARY = (
    "=== short test summary info ===\nPASSED r2e_tests/t.py::C::test_a\n{} r2e_tests/t.py::test_b - E\n=== x ===\n"
)


def test_the_whole_map_of_r2e_must_be_the_expected_one():
    recipe, task = task_of(R2E)
    assert task.instance_id == "pillow__abc"
    assert task.grading.expected == {"C.test_a": "PASSED", "test_b": "FAILED"}
    statuses = recipe.parse(task, SUMMARY.format("\x1b[31mFAILED\x1b[0m"))
    assert statuses == {"C.test_a": "PASSED", "test_b": "FAILED"}
    assert resolved(recipe, task, statuses, 1)
    for other in ({**statuses, "test_b": "PASSED"}, {**statuses, "more": "PASSED"}, {"C.test_a": "PASSED"}):
        assert not resolved(recipe, task, other)
    assert recipe.parse(task, "PASSED t.py::C::test_a\n") == {}, "only the summary counts"


def test_no_patch_reaches_the_hidden_tests_of_an_image():
    recipe, task = task_of(R2E)
    (rung,) = recipe.ladder
    assert "--exclude='r2e_tests/*' --exclude=run_tests.sh" in rung.command
    assert " run_tests.sh " in task.grading.test_command, "a file that the command names is a runner's file"
    assert recipe.needs(task) == (("/run_tests.sh", "/testbed/run_tests.sh", "/root/run_tests.sh"),)
    assert "image_assets" not in task_of({**R2E, "image_assets": {"test_patch": [{"path": "x"}]}})[1].metadata


def test_a_summary_that_is_printed_later_undoes_nothing():
    recipe, task = task_of({**R2E, "expected_output_json": {"C.test_a": "PASSED", "test_b": "PASSED"}})
    both = SUMMARY.format("FAILED") + SUMMARY.format("PASSED")
    assert not resolved(recipe, task, recipe.parse(task, both))
    assert not resolved(recipe, task, recipe.parse(task, SUMMARY.format("PASSED") + SUMMARY.format("FAILED")))


def test_an_image_file_is_found_by_the_instance(tmp_path: Path):
    (tmp_path / "o_s_r-1.sif").write_bytes(b"")
    formatter = str(tmp_path / "{instance_id}.sif")
    for row in (EXT, REBENCH, NV):
        environment = task_of(row, container_formatter=["docker://x/{instance_id}", formatter])[1].environment
        assert isinstance(environment, ImageEnvironment)
        assert environment.image == str(tmp_path / "o_s_r-1.sif")


def test_relative_sources_work_for_every_family(tmp_path: Path):
    (tmp_path / "repo").mkdir()
    for family, row in ROWS.items():
        plain = {k: v for k, v in row.items() if not k.endswith(("image", "image_name", "_tag"))}
        path = tmp_path / f"{family}.jsonl"
        path.write_text(json.dumps({**plain, "directory": "repo"}))
        (task,) = load_tasks(path)
        assert (task.family, task.environment.kind, task.environment.workdir) == (family, "source", "/testbed")
        with pytest.raises(RowError, match="nothing says in which image"):
            load_tasks([plain])
