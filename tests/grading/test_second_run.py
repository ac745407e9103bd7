"""What resolves a task with its own runner files must resolve it without them too."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import anyio
import pytest

from swe_sdk.grading.second_run import SECOND_LOG
from swe_sdk.grading.verify import grade
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.patch import Patch
from swe_sdk.model.policy import DEFAULT_POLICY
from tests.grading.faulty import FaultyProvider
from tests.grading.tiny import GOLD, WRONG, diff, make_task
from tests.shared import need_program

pytestmark = pytest.mark.anyio

RUNNER = "sh tests/check.sh\n"
FILES = {"run.sh": RUNNER, "setup.cfg": "old\n"}
COMMAND = "sh run.sh"
FORGED = "echo 'PASSED check::runs'; echo 'PASSED check::answer'\n"


@pytest.fixture
def task(tmp_path: Path):
    return make_task(tmp_path / "repo", files=FILES, test_command=COMMAND)


def touching(code: bytes, **files: str | None) -> bytes:
    names = {name.replace("_", "."): content for name, content in files.items()}
    return code + diff({name: FILES[name] for name in names if name in FILES}, {**names})


async def test_a_forger_is_found(provider, task, results):
    outcome = await grade(task, touching(WRONG, run_sh=FORGED), provider=provider, results=results)
    assert outcome.status == "unresolved"
    assert outcome.evidence["failure"] == {"stage": "tests", "kind": "runner_files"}
    assert "only with its own version of run.sh; without: 1 of 2 required tests" in outcome.reason
    assert outcome.evidence["second_run"]["taken_back"] == outcome.evidence["tampered_paths"] == ["run.sh"]
    folder = Path(outcome.artifacts["log"]).parent
    assert "FAILED check::answer" in (folder / SECOND_LOG).read_text()
    assert "FAILED" not in (folder / "test.log").read_text()


async def test_an_honest_change_is_looked_at_twice_and_resolves(provider, task):
    files = {"run_sh": "# a comment\n" + RUNNER, "setup_cfg": None, "tox_ini": "new\n"}
    outcome = await grade(task, touching(GOLD, **files), provider=provider)
    assert outcome.resolved, outcome.evidence
    assert outcome.evidence["second_run"] == {
        "taken_back": ["run.sh", "setup.cfg", "tox.ini"],
        "log": SECOND_LOG,
        "resolved": True,
        "reason": "",
    }


async def test_one_run_says_all_of_what_does_not_resolve(faulty, task):
    provider = faulty()
    assert not (await grade(task, touching(WRONG, setup_cfg="new\n"), provider=provider)).resolved
    assert provider.creates == 1


async def test_taken_back_means_as_in_the_base(provider, tmp_path: Path):
    """Changed files are restored, deleted ones are there again, new ones are gone, moved ones are back."""
    files = {**FILES, "a/setup.cfg": "a\n", "b/setup.cfg": "b\n"}
    look = "ls a b c tox.ini 2>/dev/null | sort | tr '\\n' ' '; cat setup.cfg b/setup.cfg; sh run.sh"
    task = make_task(tmp_path / "repo", files=files, test_command=look)
    before = {name: files[name] for name in ("setup.cfg", "a/setup.cfg", "b/setup.cfg")}
    after = {"setup.cfg": "new\n", "a/setup.cfg": None, "b/setup.cfg": "new\n", "c/setup.cfg": "c\n", "tox.ini": "x\n"}
    outcome = await grade(task, GOLD + diff(before, {**after}), provider=provider)
    assert outcome.resolved
    assert outcome.evidence["second_run"]["taken_back"] == sorted(after)


NEW = "@@ -0,0 +1,2 @@\n+echo 'PASSED check::runs'\n+echo 'PASSED check::answer'\n"
CHANGED = "@@ -1 +1,2 @@\n-sh tests/check.sh\n+echo 'PASSED check::runs'\n+echo 'PASSED check::answer'\n"
CONTEXT = (
    "***************\n*** 1 ****\n! sh tests/check.sh\n--- 1,2 ----\n"
    "! echo 'PASSED check::runs'\n! echo 'PASSED check::answer'\n"
)
NORMAL = "1c1,2\n< sh tests/check.sh\n---\n> echo 'PASSED check::runs'\n> echo 'PASSED check::answer'\n"
DISGUISES = {
    "prefixes of its own": (
        "git-apply",
        f"diff --git x/tox.ini y/tox.ini\nnew file mode 100644\n--- /dev/null\n+++ y/tox.ini\n{NEW}",
    ),
    "a plain diff": ("git-apply", f"--- /dev/null\n+++ z/tox.ini\n{NEW}"),
    "a quoted name": ("git-apply", f'--- /dev/null\n+++ "b/t\\157x.ini"\n{NEW}'),
    "a date": ("git-apply", f"--- /dev/null\t1970-01-01\n+++ b/tox.ini\t2020-01-01 00:00:00\n{NEW}"),
    "a second name": ("git-apply", f"--- a/tox.ini\n+++ b/tox.ini.orig\n{NEW}"),
    "an indented diff": ("patch-fuzz", indent(f"--- /dev/null\n+++ b/tox.ini\n{NEW}", "  ")),
    "a context diff": ("patch-fuzz", f"*** a/run.sh\n--- b/run.sh\n{CONTEXT}"),
    "a normal diff": ("patch-fuzz", f"Index: a/run.sh\n{NORMAL}"),
    "an index line": ("patch-fuzz", f"Index: a/run.sh\n--- q\n+++ q\n{CHANGED}"),
}
"""Ways to name a file that a reader of diffs may miss, and the rung that takes them."""


@pytest.mark.parametrize("name", DISGUISES)
async def test_what_was_changed_is_asked_of_the_tree_not_of_the_diff(provider, tmp_path: Path, name: str):
    """The forger's file is found under the name that it really has, and taken back under that name."""
    rung, text = DISGUISES[name]
    if rung == "patch-fuzz":
        need_program("patch")
    command = "if [ -f tox.ini ]; then sh tox.ini; else sh run.sh; fi"
    task = make_task(tmp_path / "repo", files=FILES, test_command=command)
    outcome = await grade(task, text, provider=provider)
    assert outcome.patch.rung == rung, outcome.evidence["apply"]
    assert outcome.status == "unresolved", outcome.evidence
    assert outcome.evidence["failure"]["kind"] == "runner_files"
    assert {"tox.ini", "run.sh"} & set(outcome.evidence["second_run"]["taken_back"])


async def test_a_disguised_patch_of_the_repository_itself_is_nobodys_misfortune(provider, tmp_path: Path):
    """GNU patch reads what git and we do not, and writes into .git."""
    need_program("patch")
    config = (
        "  --- a/.git/config\n  +++ b/.git/config\n  @@ -1,1 +1,2 @@\n   [core]\n  +\tfsmonitor = touch /tmp/evil\n"
    )
    task = make_task(tmp_path / "repo", files=FILES, test_command=COMMAND)
    outcome = await grade(task, config, provider=provider)
    assert outcome.status == "unresolved", outcome.evidence
    assert "in .git" in outcome.evidence["failure"]["reason"]
    assert outcome.evidence["control"] == {"failed": False}


async def test_gold_is_trusted_where_it_touches_such_files(provider, tmp_path: Path):
    """A hidden test may need what the gold patch adds to them: then that is what a submission gets."""
    hidden = "grep -q 'answer = 42' src.txt && grep -q golden setup.cfg && echo PASSED check::answer\n"
    hidden += "echo PASSED check::runs\n"
    test_patch = diff({"tests/check.sh": 'echo "PASSED check::runs"\n'}, {"tests/check.sh": hidden})
    gold = GOLD + diff({"setup.cfg": "old\n"}, {"setup.cfg": "golden\n"}) + diff({}, {"new/[*?\\]/tox.ini": "x\n"})
    task = make_task(
        tmp_path / "repo", files=FILES, test_command=COMMAND, test_patch=Patch.of(test_patch), gold_patch=Patch.of(gold)
    )
    alone = await grade(task, gold, provider=provider)
    assert alone.resolved
    assert "second_run" not in alone.evidence, "nothing has to be proved of the gold patch"
    same = await grade(task, touching(GOLD, setup_cfg="golden and more\n"), provider=provider)
    assert same.resolved, same.evidence
    assert same.evidence["second_run"]["resolved"] is True
    forged = await grade(task, touching(WRONG, setup_cfg="golden\n", run_sh=FORGED), provider=provider)
    assert forged.evidence["failure"]["kind"] == "runner_files"


async def test_a_gold_patch_that_applies_only_as_a_whole_leaves_the_base(provider, tmp_path: Path):
    gold = GOLD + diff({"setup.cfg": "something else\n"}, {"setup.cfg": "golden\n"})
    task = make_task(tmp_path / "repo", files=FILES, test_command=COMMAND, gold_patch=Patch.of(gold))
    outcome = await grade(task, touching(GOLD, setup_cfg="new\n"), provider=provider)
    assert outcome.resolved, outcome.evidence


class SecondFails(FaultyProvider):
    """Grades run as they should, but for the tests of every second one."""

    def __init__(self, state: Path, result: ExecResult) -> None:
        super().__init__(state, on_exec=self._fail)
        self._result = result

    def _fail(self, command: object) -> ExecResult | None:
        is_tests = isinstance(command, list) and str(command[-1]).endswith("tests.sh")
        return self._result if is_tests and self.creates % 2 == 0 else None


@pytest.mark.parametrize(
    ("result", "status", "kind"),
    [
        (ExecResult(status="lost"), "masked", "sandbox_lost"),
        (ExecResult(status="timeout"), "unresolved", "runner_files"),
        (ExecResult(status="exited", exit_code=0), "unresolved", "runner_files"),
    ],
)
async def test_trouble_in_the_second_run(provider, task, result: ExecResult, status: str, kind: str):
    """A lost box is nobody's fault and masks; tests that do not pass without the files are the submission's."""
    failing = SecondFails(provider.state, result)
    try:
        outcome = await grade(task, touching(GOLD, setup_cfg="new\n"), provider=failing, retries=0)
    finally:
        await failing.aclose()
    assert outcome.status == status
    assert (outcome.mask.kind if outcome.mask else outcome.evidence["failure"]["kind"]) == kind
    assert outcome.evidence["second_run"]["taken_back"] == ["setup.cfg"]


async def test_the_second_run_has_time_of_its_own(provider, tmp_path: Path):
    """Slow tests buy no mask."""
    task = make_task(tmp_path / "repo", files=FILES, test_command="sleep 1.2; sh run.sh")
    with anyio.fail_after(30):
        outcome = await grade(
            task, touching(GOLD, setup_cfg="x\n"), provider=provider, tests_timeout_s=2, attempt_timeout_s=3.5
        )
    assert outcome.resolved, outcome.evidence


async def test_the_policy_may_let_it_pass(provider, task):
    lenient = DEFAULT_POLICY.override({("tests", "runner_files"): "grade"})
    outcome = await grade(task, touching(WRONG, run_sh=FORGED), provider=provider, policy=lenient)
    assert outcome.resolved
    assert outcome.evidence["second_run"]["resolved"] is False
    masked = DEFAULT_POLICY.override({("tests", "runner_files"): "masked"})
    outcome = await grade(task, touching(WRONG, run_sh=FORGED), provider=provider, policy=masked)
    assert (outcome.status, outcome.mask.kind) == ("masked", "runner_files")
