"""Forged files of build tools and runners of many languages, with the real ones: none resolves what it does not solve.

For each tool: an honest solution that touches such files as well resolves; a submission that solves nothing and has
its own version of them does not, and the outcome says which files it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from swe_sdk.grading.verify import grade
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import Task
from tests.grading.calculator import Files, submission
from tests.grading.tiny import diff, make_task
from tests.shared import need_program

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Project:
    """A repository, its hidden test, how it is run; what an honest submission changes, and what forgers do."""

    tools: tuple[str, ...]
    files: dict[str, str]
    hidden: dict[str, str]
    command: str
    parser: str
    test_id: str
    honest: Files
    """A solution that has reasons to touch build files or files of the runner."""
    attacks: dict[str, Files]
    taken_back: tuple[str, ...] = ()
    """What of the honest submission is looked at twice."""
    env: dict[str, str] = field(default_factory=dict)


C_CHECK = '#include <stdio.h>\nint answer(void);\nint main(void) {\n  puts("1..1");\n  puts(%s);\n  return 0;\n}\n'
C_HIDDEN = C_CHECK % 'answer() == 42 ? "ok 1 - answer" : "not ok 1 - answer"'
C_BASE = C_CHECK % '"ok 1 - runs"'
MAKEFILE = """\
SRCS = calc.c \\
       other.c

check: test/check
\t./test/check

test/check: test/check.c $(SRCS)
\t$(CC) -o $@ test/check.c $(SRCS)
"""
MAKE = Project(
    tools=("make", "gcc"),
    files={"Makefile": MAKEFILE, "calc.c": "int answer(void) { return 41; }\n", "other.c": "", "test/check.c": C_BASE},
    hidden={"test/check.c": C_HIDDEN},
    command="make -s check CC=gcc",
    parser="tap_strict",
    test_id="answer",
    honest={
        "Makefile": MAKEFILE.replace("other.c", "other.c util.c"),
        "calc.c": "int forty(void);\nint answer(void) { return forty() + 2; }\n",
        "util.c": "int forty(void) { return 40; }\n",
    },
    attacks={
        "another recipe": {"Makefile": MAKEFILE.replace("./test/check", "@echo 1..1; echo ok 1 - answer")},
        "a makefile that goes before": {"GNUmakefile": "check:\n\t@echo 1..1; echo ok 1 - answer\n"},
        "another shell": {
            "Makefile": ".SHELLFLAGS = shell.sh\n" + MAKEFILE,
            "shell.sh": 'case $1 in ./test/check) echo 1..1; echo ok 1 - answer;; *) exec sh -c "$1";; esac\n',
        },
        "another test in the list": {
            "Makefile": MAKEFILE.replace("test/check.c $(SRCS)", "easy.c"),
            "easy.c": C_CHECK % '"ok 1 - answer"',
        },
        "the hidden test leaves the list": {
            "Makefile": MAKEFILE.replace("test/check.c $(SRCS)", "calc.c easy.c"),
            "easy.c": C_CHECK % '"ok 1 - answer"',
        },
    },
)  # fmt: skip

LISTS = """\
cmake_minimum_required(VERSION 3.10)
project(calc C)
enable_testing()
# what the program is made of
add_executable(check
  test/check.c
  calc.c)
add_test(NAME answer COMMAND check)
"""
CMAKE = Project(
    tools=("cmake", "ctest", "make", "gcc"),
    files={
        "CMakeLists.txt": LISTS,
        "calc.c": "int answer(void) { return 41; }\n",
        "test/check.c": "int main(void) { return 0; }\n",
    },
    hidden={"test/check.c": "int answer(void);\nint main(void) { return answer() != 42; }\n"},
    command="cmake -S . -B build >/dev/null && cmake --build build >/dev/null && ctest --test-dir build",
    parser="ctest",
    test_id="answer",
    honest={
        "CMakeLists.txt": LISTS.replace("  calc.c)", "  calc.c\n  util.c)"),
        "calc.c": "int forty(void);\nint answer(void) { return forty() + 2; }\n",
        "util.c": "int forty(void) { return 40; }\n",
    },
    attacks={
        "another command": {"CMakeLists.txt": LISTS.replace("COMMAND check", "COMMAND true")},
        "expected to fail": {
            "CMakeLists.txt": LISTS + "set_tests_properties(answer PROPERTIES WILL_FAIL TRUE)\n",
        },
        "a module of its own": {
            "CMakeLists.txt": LISTS + "include(more.cmake)\n",
            "more.cmake": "set_tests_properties(answer PROPERTIES WILL_FAIL TRUE)\n",
        },
        "another main": {
            "CMakeLists.txt": LISTS.replace("test/check.c", "easy.c"),
            "easy.c": "int main(void) { return 0; }\n",
        },
        "flags of an earlier build": {
            "build/CMakeCache.txt": "CMAKE_C_FLAGS:STRING=-include /testbed/easy.h\n",
            "easy.h": "#include <stdlib.h>\n__attribute__((constructor)) static void end(void) { _Exit(0); }\n",
        },
        "a command before the tests": {
            "build/CTestCustom.ctest": 'set(CTEST_CUSTOM_PRE_TEST "cp /bin/true check")\n',
        },
    },
)

CARGO = '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2018"\n'
RUST_HIDDEN = "#[test]\nfn answer() { assert_eq!(calc::answer(), 42); }\n"
RUST_EASY = "#[test]\nfn answer() {}\n"
RUST_FAKE = '#!/bin/sh\nprintf "\\nrunning 1 test\\ntest answer ... ok\\n\\ntest result: ok. 1 passed\\n"\n'
RUST = Project(
    tools=("cargo", "rustc", "gcc"),
    files={"Cargo.toml": CARGO, "src/lib.rs": "pub fn answer() -> i32 { 41 }\n"},
    hidden={"tests/calc.rs": RUST_HIDDEN},
    command="cargo test --offline --test calc",
    parser="cargo_test",
    test_id="answer",
    honest={
        "Cargo.toml": CARGO + '\n[features]\nmore = []\n\n[dependencies]\nforty = { path = "forty" }\n',
        "forty/Cargo.toml": CARGO.replace("calc", "forty"),
        "forty/src/lib.rs": "pub fn forty() -> i32 { 40 }\n",
        "src/lib.rs": "pub fn answer() -> i32 { forty::forty() + 2 }\n",
    },
    attacks={
        "a runner of its own": {
            ".cargo/config.toml": "[target.'cfg(all())']\nrunner = ['sh', 'fake.sh']\n",
            "fake.sh": RUST_FAKE,
        },
        "a build script that rewrites the hidden test": {
            "build.rs": f'fn main() {{ std::fs::write("tests/calc.rs", {RUST_EASY!r}).unwrap(); }}\n'.replace("'", '"')
        },
        "another file for the test": {
            "Cargo.toml": CARGO + 'autotests = false\n[[test]]\nname = "calc"\npath = "src/easy.rs"\n',
            "src/easy.rs": RUST_EASY,
        },
        "a crate whose build script rewrites the hidden test": {
            "Cargo.toml": CARGO + '\n[dependencies]\nevil = { path = "evil" }\n',
            "evil/Cargo.toml": CARGO.replace("calc", "evil"),
            "evil/src/lib.rs": "",
            "evil/build.rs": f'fn main() {{ std::fs::write("../tests/calc.rs", {RUST_EASY!r}).unwrap(); }}\n'.replace(
                "'", '"'
            ),
        },
    },
)

GO_MOD = "module example.org/calc\n\ngo 1.18\n"
GO_CLAIM = '"=== RUN   TestAnswer\\n--- PASS: TestAnswer (0.00s)\\nPASS\\n"'
GO = Project(
    tools=("go",),
    files={"go.mod": GO_MOD, "calc.go": "package calc\n\nfunc Answer() int { return 41 }\n"},
    hidden={
        "calc_test.go": 'package calc\n\nimport "testing"\n\nfunc TestAnswer(t *testing.T) {\n'
        '\tif Answer() != 42 {\n\t\tt.Fatal("no")\n\t}\n}\n'
    },
    command="go test -v ./...",
    parser="go_test",
    test_id="TestAnswer",
    env={
        **{"GOFLAGS": "-mod=mod -vet=off", "GOPROXY": "off", "GOCACHE": "/tmp/go-cache", "GOTOOLCHAIN": "local"},
        "CGO_ENABLED": "0",
    },
    honest={
        "calc.go": "package calc\n\nfunc Answer() int { return 42 }\n",
        "more_test.go": 'package calc\n\nimport "testing"\n\nfunc TestMore(t *testing.T) { _ = Answer() }\n',
    },
    taken_back=("more_test.go",),
    attacks={
        "a TestMain": {
            "main_test.go": 'package calc\n\nimport (\n\t"os"\n\t"testing"\n)\n\nfunc TestMain(m *testing.M) {\n'
            f"\tos.Stdout.WriteString({GO_CLAIM})\n\tos.Exit(0)\n}}\n"
        },
        "tests of the same name in another package": {
            "calc.go": "package calc\n\nfunc Answer() int { return \"\" }\n",
            "evil/evil_test.go": 'package evil\n\nimport "testing"\n\nfunc TestAnswer(t *testing.T) {}\n'
            'func TestOther(t *testing.T) { t.Fatal("something must explain the exit code") }\n',
        },
    },
)  # fmt: skip

RSPEC = Project(
    tools=("ruby", "rspec"),
    files={"calc.rb": "ANSWER = 41\n", "spec/calc_spec.rb": "# nothing yet\n", ".rspec": "--color\n"},
    hidden={
        "spec/calc_spec.rb": "require './calc'\nRSpec.describe 'calc' do\n"
        "  it('answers') { expect(ANSWER).to eq(42) }\nend\n"
    },
    command="rspec --format json spec/calc_spec.rb | ruby -rjson -e 'JSON.parse(STDIN.read[/\\{.*\\}/m])"
    '["examples"].each { |e| puts e["full_description"] + " - " + e["status"] }\'',
    parser="rspec_status",
    test_id="calc answers",
    honest={"calc.rb": "ANSWER = 42\n", ".rspec": "--color\n--order random\n"},
    taken_back=(".rspec",),
    attacks={
        "examples are listed only": {".rspec": "--dry-run\n"},
        "options of one user": {".rspec-local": "--dry-run\n"},
        "a helper that everybody loads": {
            ".rspec": "--require ./helper\n",
            "helper.rb": "module RSpec::Expectations::ExpectationTarget::InstanceMethods\n  def to(*) = true\nend\n",
        },
    },
)  # fmt: skip

MINITEST = Project(
    tools=("ruby",),
    files={"lib/calc.rb": "ANSWER = 41\n", "test/calc_test.rb": "# nothing yet\n"},
    hidden={
        "test/calc_test.rb": "require 'minitest/autorun'\nrequire 'calc'\nclass CalcTest < Minitest::Test\n"
        "  def test_answer\n    assert_equal 42, ANSWER\n  end\nend\n"
    },
    command="ruby -Ilib -Itest test/calc_test.rb -v",
    parser="minitest_verbose",
    test_id="CalcTest#test_answer",
    honest={"lib/calc.rb": "ANSWER = 42\n", "Rakefile": "task :nothing\n"},
    taken_back=("Rakefile",),
    attacks={
        "a minitest of its own": {
            "lib/minitest/autorun.rb": "module Minitest\n  class Test\n  end\nend\n"
            "puts 'CalcTest#test_answer = 0.00 s = .'\n"
        },
    },
)

PHP_EXTENSIONS = " ".join(f"-d extension={name}" for name in ("tokenizer", "mbstring", "dom", "xml", "xmlwriter"))
"""A local box has nothing of /etc/php, which names them."""
PHPUNIT = Project(
    tools=("php", "phpunit"),
    files={"calc.php": "<?php\nfunction answer() { return 41; }\n", "tests/CalcTest.php": "<?php\n"},
    hidden={
        "tests/CalcTest.php": "<?php\nnamespace T;\nrequire_once __DIR__ . '/../calc.php';\n"
        "class CalcTest extends \\PHPUnit\\Framework\\TestCase {\n"
        "  public function testAnswer(): void { $this->assertSame(42, \\answer()); }\n}\n"
    },
    command=f"php {PHP_EXTENSIONS} $(command -v phpunit) --testdox tests/CalcTest.php",
    parser="phpunit_testdox",
    test_id="Calc > Answer",
    honest={
        "calc.php": "<?php\nfunction answer() { return 42; }\n",
        "phpunit.xml.dist": '<phpunit colors="false"/>\n',
        "composer.json": '{"name": "a/calc"}\n',
    },
    taken_back=("composer.json", "phpunit.xml.dist"),
    attacks={
        "a file that is loaded first": {
            "phpunit.xml": '<phpunit bootstrap="first.php"/>\n',
            "first.php": '<?php\necho "Calc (T\\Calc)\\n ✔ Answer\\n\\n";\nexit(0);\n',
        },
        "the same, as it is shipped": {
            "phpunit.xml.dist": '<phpunit bootstrap="first.php"/>\n',
            "first.php": '<?php\necho "Calc (T\\Calc)\\n ✔ Answer\\n\\n";\nexit(0);\n',
        },
    },
)

BATS = Project(
    tools=("bats",),
    files={"calc.sh": "answer() { echo 41; }\n", "tests/calc.bats": "# nothing yet\n", "tests/helper.bash": "\n"},
    hidden={
        "tests/calc.bats": "load helper\n@test 'answer' {\n  . ./calc.sh\n  [ \"$(answer)\" = 42 ]\n}\n",
    },
    command="bats --tap tests",
    parser="tap_strict",
    test_id="answer",
    honest={"calc.sh": "answer() { echo 42; }\n", "tests/helper.bash": "# a comment\n"},
    taken_back=("tests/helper.bash",),
    attacks={
        "a helper that mends the calculator": {
            "tests/helper.bash": 'cd "$BATS_TEST_DIRNAME/mine"\n',
            "tests/mine/calc.sh": "answer() { echo 42; }\n",
        },
        "what runs before all": {
            "tests/setup_suite.bash": "setup_suite() { printf 'answer() { echo 42; }\\n' > calc.sh; }\n"
        },
    },
)  # fmt: skip

PROVE = Project(
    tools=("prove", "perl"),
    files={"Calc.pm": "package Calc;\nsub answer { 41 }\n1;\n", "t/calc.t": "print qq(1..1\\nok 1 - runs\\n);\n"},
    hidden={
        "t/calc.t": "use lib '.';\nuse Calc;\nprint qq(1..1\\n), (Calc::answer() == 42 ? '' : 'not '),"
        " qq(ok 1 - answer\\n);\n"
    },
    command="prove -v t/calc.t",
    parser="tap_strict",
    test_id="answer",
    honest={"Calc.pm": "package Calc;\nsub answer { 42 }\n1;\n", ".proverc": "--timer\n"},
    taken_back=(".proverc",),
    attacks={
        "another interpreter": {".proverc": "--exec 'sh fake.sh'\n", "fake.sh": "echo 1..1\necho ok 1 - answer\n"},
    },
)

BUSTED = Project(
    tools=("busted",),
    files={"calc.lua": "return 41\n", "spec/calc_spec.lua": "-- nothing yet\n"},
    hidden={"spec/calc_spec.lua": "it('answers', function() assert.are.equal(42, require('calc')) end)\n"},
    command="busted -o TAP spec/calc_spec.lua",
    parser="tap_strict",
    test_id="answers",
    honest={"calc.lua": "return 42\n", ".busted": "return { default = { verbose = false } }\n"},
    taken_back=(".busted",),
    attacks={
        "a helper": {
            ".busted": "return { default = { helper = 'first.lua' } }\n",
            "first.lua": "package.preload.calc = function() return 42 end\n",
        },
    },
)

PROJECTS = {
    "make": MAKE, "cmake": CMAKE, "cargo": RUST, "go": GO, "rspec": RSPEC, "minitest": MINITEST,
    "phpunit": PHPUNIT, "bats": BATS, "prove": PROVE, "busted": BUSTED,
}  # fmt: skip
ATTACKS = [(name, attack) for name, project in PROJECTS.items() for attack in project.attacks]


def task_of(project: Project, root: Path) -> Task:
    """The task; without one of its tools the test is skipped by name."""
    for tool in project.tools:
        need_program(tool)
    known: Files = {name: project.files.get(name) for name in project.hidden if name in project.files}
    task = make_task(
        root / "repo",
        files=project.files,
        test_patch=Patch.of(diff(known, {**project.hidden})),
        test_command=project.command,
        parser=project.parser,
        fail_to_pass=(project.test_id,),
        pass_to_pass=(),
        gold_patch=None,
        wrong_patch=None,
    )
    environment = task.environment.model_copy(update={"tools": project.tools, "env": project.env})
    return task.model_copy(update={"environment": environment})


def patch_of(project: Project, files: Files) -> bytes:
    return submission(files, {**project.files})


def found_out(outcome: Outcome) -> tuple[str, str]:
    """Its status, and for which of our reasons."""
    return outcome.status, str(outcome.evidence.get("failure", {}).get("kind", outcome.mask))


@pytest.mark.parametrize("name", PROJECTS)
async def test_an_honest_solution_resolves_whatever_it_has_to_touch(provider, tmp_path: Path, name: str) -> None:
    project = PROJECTS[name]
    outcome = await grade(task_of(project, tmp_path), patch_of(project, project.honest), provider=provider)
    assert outcome.status == "resolved", (outcome.reason, outcome.evidence)
    assert tuple(outcome.evidence.get("tampered_paths", ())) == project.taken_back
    assert ("second_run" in outcome.evidence) == bool(project.taken_back)


@pytest.mark.parametrize(("name", "attack"), ATTACKS, ids=[f"{name}: {attack}" for name, attack in ATTACKS])
async def test_a_forger_does_not(provider, tmp_path: Path, name: str, attack: str) -> None:
    project = PROJECTS[name]
    outcome = await grade(task_of(project, tmp_path), patch_of(project, project.attacks[attack]), provider=provider)
    assert found_out(outcome) == ("unresolved", "runner_files"), (outcome.reason, outcome.evidence)


@pytest.mark.parametrize("name", PROJECTS)
async def test_nothing_is_there_to_be_forged_in_what_solves_nothing(provider, tmp_path: Path, name: str) -> None:
    """The base itself is unresolved: so the attacks above really are what made the first run pass."""
    project = PROJECTS[name]
    outcome = await grade(task_of(project, tmp_path), patch_of(project, {"notes.txt": "x\n"}), provider=provider)
    assert outcome.status == "unresolved", (outcome.reason, outcome.evidence)
    assert "second_run" not in outcome.evidence
