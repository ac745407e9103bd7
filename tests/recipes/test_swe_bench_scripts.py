"""Evaluation scripts are split without losing a command; what cannot be split is refused."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import sample_rows
from hypothesis import given
from hypothesis import strategies as st
from swebench.harness.utils import make_test_spec

from swe_sdk.recipes.swe_bench import SweBenchRecipe
from swe_sdk.recipes.swe_bench_scripts import ScriptError, split_eval_script
from swe_sdk.recipes.swe_bench_specs import directives, find_spec, known_repositories, known_versions
from tests.shared import shared_rows

START, END = ": '>>>>> Start Test Output'", ": '>>>>> End Test Output'"
FILES = frozenset({"tests/a.py", "tests/b.py"})


def split(*before: str, tests: tuple[str, ...] = ("pytest",)):
    script = "\n".join(("#!/bin/bash", *before, START, *tests, END, "git checkout abc1234 tests/a.py"))
    return split_eval_script(script, base_commit="abc1234", test_files=FILES)


@pytest.mark.parametrize(
    "line",
    [
        "git checkout abc1234 tests/a.py",
        "git checkout abc1234 -- tests/a.py tests/b.py",
        "git checkout 0123456789abcdef0123456789abcdef01234567 'tests/a.py'",
        "git checkout -- tests/a.py",
        "git checkout abc1234",
        "git checkout abc1234 ",
        "rm -f tests/a.py tests/b.py",
        "git checkout abc1234 tests/a.py && rm -f tests/b.py",
        "git status",
        "git show",
        "git -c core.fileMode=false diff abc1234",
    ],
)
def test_lines_that_are_the_graders_business_are_taken_out(line):
    assert split("cd /testbed", line, "make").prelude == "cd /testbed\nmake"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "rm -f build.log",
        "rm -rf tests/a.py",
        "git checkout abc1234 setup.py",
        "git checkout main",
        "git submodule update",
        "git apply other.patch",
        "echo 'an open quote",
        "npm run build || true",
    ],
)
def test_all_other_lines_stay(line):
    assert split("cd /testbed", line, "make").prelude == f"cd /testbed\n{line}\nmake"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rm -f tests/a.py setup.py", "'setup.py', which the test patch does not touch"),
        ("git checkout abc1234 tests/a.py setup.py", "'setup.py', which the test patch does not touch"),
        ("git checkout abc1234 tests/a.py && make", "resets test files and does something else"),
    ],
)
def test_a_line_that_also_resets_other_files_is_refused(line, expected):
    with pytest.raises(ScriptError, match=re.escape(expected)):
        split(line)


def test_the_patch_is_taken_from_its_here_document_whatever_it_holds():
    body = f"+{START}\n{START}\n+rm -f tests/a.py\n+cat <<EOF"
    parts = split("cd /x", "git apply -v - <<'EOF_9'", *body.split("\n"), "EOF_9", "make")
    assert parts.test_patch == body + "\n"
    assert (parts.prelude, parts.test_command) == ("cd /x\nmake", "pytest")


def test_other_here_documents_are_kept_whole():
    lines = ("cat > conf <<-EOF", START, "git status", "\tEOF", "x=$((1 << 2))", "cat <<< EOF", "cat << never_closed")
    assert split(*lines).prelude == "\n".join(lines)
    assert split(tests=("cat <<EOF", END, "EOF")).test_command == f"cat <<EOF\n{END}\nEOF"


def test_the_exit_code_is_the_graders_business():
    assert split(tests=("pytest a", "pytest b", "SWEBENCH_TEST_EXIT_CODE=$?")).test_command == "pytest a\npytest b"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", "no line : '>>>>> Start"),
        (f"x\n{END}", "no line : '>>>>> Start"),
        (f"{START}\npytest", "no line : '>>>>> End"),
        (f"{END}\n{START}\npytest", "no line : '>>>>> End"),
        (f"{START}\n \n{END}", "no command between the markers"),
        (f"cat <<'X'\n{START}\npytest\n{END}\nX", "no line : '>>>>> Start"),
        (f"git apply - <<A\nA\ngit apply - <<A\nA\n{START}\npytest\n{END}", "more than one patch"),
    ],
)
def test_what_cannot_be_split_is_named(script, expected):
    with pytest.raises(ScriptError, match=re.escape(expected)):
        split_eval_script(script, base_commit=None, test_files=frozenset())


PIECES = st.sampled_from(
    [START, END, "pytest", "git apply - <<E", "E", "'", "rm -f tests/a.py", "git checkout abc1234 x"]
)


@given(st.lists(PIECES | st.text(max_size=12), max_size=12))
def test_any_text_is_split_or_refused(lines):
    try:
        parts = split_eval_script("\n".join(lines), base_commit="abc1234", test_files=FILES)
    except ScriptError:
        return
    assert parts.test_command.strip()


def trace(script: str, folder: Path) -> list[str]:
    """The simple commands that bash comes to in ``script``, each with the locale that it would see.

    Nothing is run: there is no program on PATH, so that every command but the shell's own is unknown.
    """
    log, hook, body = folder / "trace", folder / "hook", folder / "script"
    log.write_text("")
    state = '"${LANG-}" "${LC_ALL-}" "${PYTHONIOENCODING-}" "$-"'
    hook.write_text(f'trap \'builtin printf "%s %s %s %s %s\\036" {state} "$BASH_COMMAND" >>{log}\' DEBUG')
    body.write_text(script)
    env = {"PATH": "/nonexistent", "BASH_ENV": str(hook), "NVM_DIR": "/nonexistent"}
    subprocess.run(["/bin/bash", str(body)], cwd=folder, env=env, capture_output=True, check=False, timeout=60)
    return log.read_text().split("\036")


def real_rows() -> list[dict[str, Any]]:
    rows = shared_rows(*(f"rows/swe-bench/{name}.jsonl" for name in ("verified_v5", "multimodal_v5", "marked_v5_js")))
    first = {(row["repo"], row["version"]): row for row in rows}
    return list(first.values())


GRADERS_OWN = re.compile(
    r"""\S*\ \S*\ \S*\ \S+\ (?:
        git\ (?:status|show|apply\ -v\ -|checkout\ [0-9a-f]{40}(?:\ |$)|-c\ core.fileMode=false\ diff)
        | rm\ -f\ | :\ '>>>>>\ | SWEBENCH_TEST_EXIT_CODE= | echo\ ">>>>>\ Test\ Exit\ Code
    )""",
    re.VERBOSE,
)


@pytest.mark.shared
@pytest.mark.parametrize("row", real_rows(), ids=lambda row: row["instance_id"])
def test_the_parts_of_a_real_script_run_what_the_official_one_runs(row, tmp_path):
    grading = SweBenchRecipe().to_task(row, where="row", root=tmp_path).grading
    official = trace(make_test_spec(row).eval_script, tmp_path)
    ours = trace(f"{grading.prelude}\n{grading.test_command}\n", tmp_path)
    if grading.test_command.startswith("set -x\n"):  # for parsers that read the trace; the official script has it on
        ours = [line for line in ours if not line.endswith(" set -x")]
    assert len(ours) > 3
    assert ours == [line for line in official if not GRADERS_OWN.match(line)]


def test_directives_follow_the_official_rule():
    patch = "diff --git a/x b/tests/a/test_b.py\n+diff --git a/c b/tests/data.json\ndiff --git a/d b/tests/e.csv\n"
    assert directives("psf/requests", patch) == ("tests/a/test_b.py",)
    assert directives("django/django", patch + "diff --git a/t b/tests/t.py") == ("a.test_b", "t")
    assert directives("django/django", "") == ()


def test_the_table_covers_the_twelve_repositories_without_overlap():
    assert len(known_repositories()) == 12
    for repo in known_repositories():
        versions = known_versions(repo)
        assert len(versions) == len(set(versions)) > 0
        assert all(find_spec(repo, version) is not None for version in versions)
    assert find_spec("django/django", "1.9") is not find_spec("django/django", "1.10")
    assert find_spec("django/django", "1") is None
    assert find_spec("a/b", "1.0") is None


def test_unusual_paths_are_quoted():
    spec = find_spec("pallets/flask", "2.3")
    assert spec is not None
    assert spec.test_command(("tests/a.py", "tests/b c$(x).py")) == "pytest -rA tests/a.py 'tests/b c$(x).py'"


def test_the_sample_script_is_split(tmp_path):
    parts = split_eval_script(sample_rows.SCRIPT, base_commit="abc1234", test_files=frozenset({"tests/test_hidden.py"}))
    assert parts.test_patch == sample_rows.TEST_PATCH + "\n"
    assert "hidden" not in parts.prelude
