"""The recipe of R2E-Gym: the whole map of results must be the expected one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swe_sdk.errors import UnknownParser
from swe_sdk.model.environment import WORKDIR, Environment, ImageEnvironment
from swe_sdk.model.outcome import MISSING, TestReport
from swe_sdk.model.patch import EMPTY_PATCH
from swe_sdk.model.task import GradingSpec, Task
from swe_sdk.recipes import compat as compats
from swe_sdk.recipes.contract import Resolution, Rung
from swe_sdk.recipes.parsers.status import ERROR, FAILED, PASSED, combine
from swe_sdk.recipes.row import Row
from swe_sdk.recipes.shared_rows import build_task, environment_of, image_field, read_row

_FIELDS = (
    "expected_output_json",
    "docker_image",
    "image_name",
    "image",
    "commit_hash",
    "modified_files",
    "relevant_files",
    "num_non_test_files",
    "num_non_test_func_methods",
    "num_non_test_lines",
    "execution_result_content",
    "parsed_commit_content",
    "prompt",
)
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_WORDS = {PASSED: PASSED, FAILED: FAILED, ERROR: ERROR}
_HEADING = "short test summary info"
_SCRIPTS = ("/run_tests.sh", "/testbed/run_tests.sh", "/root/run_tests.sh")
_RUN = (
    "cd /testbed\n"
    "for script in /run_tests.sh run_tests.sh /root/run_tests.sh; do\n"
    '  if [ -f "$script" ]; then bash "$script"; exit $?; fi\n'
    "done\n"
    'echo "there is no run_tests.sh in /, /testbed or /root" >&2\n'
    "exit 97\n"
)
_APPLY = "git apply --whitespace=fix"
_STRICT = (Rung(name="git-apply", command=f"{_APPLY} --exclude='r2e_tests/*' --exclude=run_tests.sh \"$PATCH\""),)
"""The hidden tests may lie in the repository; no patch has any business there, not even that they were gone."""
_LEGACY = (Rung(name="git-apply", command=f'{_APPLY} "$PATCH"'),)
_SHOWN = 3
_PARSER = "r2e_pytest"

HIDDEN = ("/r2e_tests", "/root/r2e_tests", "/testbed/r2e_tests", "/run_tests.sh", "/root/run_tests.sh")
"""Where the images of this family keep the hidden tests; an agent's box must not have them."""


class R2EGymRecipe:
    """Rows, commands and verdicts of R2E-Gym; see :class:`swe_sdk.recipes.contract.Recipe`.

    Resolved means that the parsed results equal ``expected_output_json``: the same tests, the same statuses, no other.
    Our rules add that at least one test must be expected to pass, and that a test which is reported twice, in whichever
    summaries, and fails once has failed. ``compat="legacy"`` has neither.
    """

    def __init__(self, compat: str = "") -> None:
        self.compat = compats.checked(compat, ("legacy",), "r2e-gym")

    @property
    def family(self) -> str:
        """``r2e-gym``, or with the rules that hold, ``r2e-gym@legacy``."""
        return compats.named("r2e-gym", self.compat)

    @property
    def version(self) -> str:
        """Changes whenever the same input may get another verdict."""
        return f"{self.family}/1"

    @property
    def ladder(self) -> tuple[Rung, ...]:
        """The one way to apply a model patch."""
        return _LEGACY if self.compat else _STRICT

    def recognizes(self, row: Mapping[str, Any]) -> bool:
        """Whether the row holds expected results."""
        return row.get("expected_output_json") is not None

    def to_task(self, row: Mapping[str, Any], *, where: str, root: Path) -> Task:
        """A task from a row; raises ``RowError``. Rows of the hub have no id; it is made of repository and commit."""
        parts = read_row(_with_id(row), where, _FIELDS, lambda fields: self._parts(fields, root))
        return build_task(self.family, *parts, repo=parts[0].optional_text("repo_name"))

    def _parts(self, row: Row, root: Path) -> tuple[Environment, GradingSpec]:
        images = ("docker_image", "image_name", "image")
        environment = environment_of(row, root, lambda: image_field(row, *images), WORKDIR)
        if isinstance(environment, ImageEnvironment):
            environment = environment.model_copy(update={"hidden": HIDDEN})
        expected = {plain_name(name): status for name, status in row.text_map("expected_output_json").items()}
        grading = GradingSpec(
            test_patch=row.patch("test_patch") or EMPTY_PATCH,
            fail_to_pass=tuple(name for name, status in expected.items() if status == PASSED),
            expected=expected,
            test_command=_RUN,
            parser=_PARSER,
            gold_patch=row.patch("patch"),
            wrong_patch=row.patch("wrong_patch"),
        )
        return environment, grading

    remedy = "use an image of this family, or give the row a test_patch that brings run_tests.sh"

    def brings(self, task: Task) -> tuple[tuple[str, str], ...]:
        """Nothing."""
        return ()

    def needs(self, task: Task) -> tuple[tuple[str, ...], ...]:
        """The script that runs the tests, where an image should have it: without it nothing can be measured."""
        has_own = task.grading.test_patch.exists or not isinstance(task.environment, ImageEnvironment)
        return () if has_own else (_SCRIPTS,)

    def parse(self, task: Task, section: str) -> dict[str, str]:
        """``{test: status}`` of pytest's summary; raises ``UnknownParser`` where the task names another parser.

        A test is what stands behind the file's ``::``, its parts joined by dots, cut at `` - ``, without colours.
        """
        if task.grading.parser != _PARSER:
            raise UnknownParser(task.grading.parser, (_PARSER,))
        found: dict[str, str] = {}
        for name, status in _summary(section, first_only=bool(self.compat)):
            found[name] = status if self.compat else combine(found.get(name), status)
        return found

    def judge(self, task: Task, statuses: Mapping[str, str], exit_code: int | None) -> Resolution:
        """Whether those statuses are the expected ones, no more and no less."""
        expected = task.grading.expected
        report = TestReport(fail_to_pass={name: statuses.get(name, MISSING) for name in task.grading.fail_to_pass})
        if not (task.grading.fail_to_pass or self.compat):
            return Resolution(resolved=False, tests=report, reason="the task expects no test to pass")
        wrong = [f"{name} {statuses.get(name, MISSING)}" for name in expected if statuses.get(name) != expected[name]]
        wrong += [f"{name} {status} (not expected)" for name, status in statuses.items() if name not in expected]
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        reason = f"{len(wrong)} results are not the expected ones: {', '.join(wrong[:_SHOWN])}{more}" if wrong else ""
        return Resolution(resolved=not wrong, tests=report, reason=reason)


def plain_name(name: str) -> str:
    """A test's name without colours and without what pytest puts behind `` - ``."""
    return _ANSI.sub("", name).partition(" - ")[0].strip()


def _summary(log: str, *, first_only: bool) -> list[tuple[str, str]]:
    """The lines ``STATUS path::test`` of the first summary, or of all: one that is printed after it undoes nothing."""
    summary = _ANSI.sub("", log).partition(_HEADING)[2]
    if first_only:
        summary = summary.partition(_HEADING)[0]
    found = []
    for line in summary.split("\n"):
        word, _, test = line.strip().partition(" ")
        if word in _WORDS:
            _, colons, name = test.partition("::")
            found.append((plain_name(".".join(name.split("::")) if colons else test), _WORDS[word]))
    return [(name, status) for name, status in found if name]


def _with_id(row: Mapping[str, Any]) -> Mapping[str, Any]:
    name, commit = row.get("repo_name"), row.get("commit_hash")
    if row.get("instance_id") is not None or not isinstance(name, str) or not isinstance(commit, str):
        return row
    return {**row, "instance_id": f"{name}__{commit}"}
