"""The recipe of SWE-rebench: many languages, tests read by parsers that the rows name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swe_sdk.errors import UnknownParser
from swe_sdk.model.environment import Environment
from swe_sdk.model.patch import EMPTY_PATCH
from swe_sdk.model.task import GradingSpec, Task
from swe_sdk.recipes import compat as compats
from swe_sdk.recipes.contract import Resolution, Rung
from swe_sdk.recipes.lenient_apply import REBENCH_LEGACY, REBENCH_STRICT
from swe_sdk.recipes.parsers import parse_log
from swe_sdk.recipes.parsers.status import combine
from swe_sdk.recipes.parsers.swe_rebench import SWE_REBENCH
from swe_sdk.recipes.required import require_all
from swe_sdk.recipes.row import Fields, Row
from swe_sdk.recipes.shared_rows import build_task, environment_of, image_field, optional_list, read_row

_JAVA = "export _JAVA_OPTIONS=-Djava.net.preferIPv6Addresses=false"
_FIELDS = (
    "install_config",
    "image_name",
    "docker_image",
    "image",
    "FAIL_TO_PASS",
    "fail_to_pass",
    "PASS_TO_PASS",
    "pass_to_pass",
    "meta",
    "pr_description",
    "interface",
    "license_name",
    "FAIL_TO_FAIL",
    "PASS_TO_FAIL",
    "requirements",
    "environment",
)
_TIMES = re.compile(
    r"(?<!\s)\s*(?:\[\s*\d+(?:\.\d+)?\s*(?:ms|s|sec|m)\s*\]|\(\s*\d+(?:\.\d+)?\s*(?:ms|s|sec|m)\s*\)"
    r"|\s+in\s+\d+(?:\.\d+)?\s*(?:ms|s|sec|msec|seconds)\.?)\s*$",
    re.IGNORECASE,
)


def without_time(name: str) -> str:
    """A test's name without the time that some runners put behind it: ``[12 ms]``, `` in 0.1 sec``, ``(3s)``."""
    return _TIMES.sub("", name).strip()


class SweRebenchRecipe:
    """Rows, commands and verdicts of SWE-rebench, in the layout of V2; see :class:`swe_sdk.recipes.contract.Recipe`.

    ``compat="legacy"`` is NeMo Gym's harness: failures to apply a patch are ignored, a log with an unknown parser is
    read as an empty one, and a task that requires no test is resolved.
    """

    def __init__(self, compat: str = "") -> None:
        self.compat = compats.checked(compat, ("legacy",), "swe-rebench")

    @property
    def family(self) -> str:
        """``swe-rebench``, or with the rules that hold, ``swe-rebench@legacy``."""
        return compats.named("swe-rebench", self.compat)

    @property
    def version(self) -> str:
        """Changes whenever the same input may get another verdict."""
        return f"{self.family}/1"

    @property
    def ladder(self) -> tuple[Rung, ...]:
        """The ways to apply a model patch."""
        return REBENCH_LEGACY if self.compat else REBENCH_STRICT

    @property
    def test_rung(self) -> Rung:
        """How the hidden tests are applied, after the model's patch."""
        return self.ladder[-1]

    def recognizes(self, row: Mapping[str, Any]) -> bool:
        """Whether the row says how to install and test."""
        return row.get("install_config") is not None

    def to_task(self, row: Mapping[str, Any], *, where: str, root: Path) -> Task:
        """A task from a row; raises ``RowError``. An unknown parser is no error here: grading masks it."""
        parts = read_row(row, where, _FIELDS, lambda fields: self._parts(fields, root))
        return build_task(self.family, *parts)

    def _parts(self, row: Row, root: Path) -> tuple[Environment, GradingSpec]:
        config = row.mapping("install_config")
        workdir = "/" + row.text("repo").rpartition("/")[2]
        images = ("image_name", "docker_image", "image")
        environment = environment_of(
            row, root, lambda: image_field(row, *images), workdir, row.optional_text("base_commit")
        )
        commands = config.texts("test_cmd")
        if not any(command.strip() for command in commands):
            raise config.error("the field 'test_cmd' is missing or empty", "add 'test_cmd'")
        grading = GradingSpec(
            test_patch=row.patch("test_patch") or EMPTY_PATCH,
            fail_to_pass=optional_list(row, "FAIL_TO_PASS", "fail_to_pass"),
            pass_to_pass=optional_list(row, "PASS_TO_PASS", "pass_to_pass"),
            prelude="\n".join((_JAVA, *config.texts("install"))) + "\n",
            test_command="\n".join(commands),
            parser=_parser(config, commands),
            gold_patch=row.patch("patch"),
            wrong_patch=row.patch("wrong_patch"),
        )
        return environment, grading

    def parse(self, task: Task, section: str) -> dict[str, str]:
        """The statuses in a test section, their times taken away; raises ``UnknownParser`` (but for ``legacy``)."""
        try:
            statuses = _read(task.grading.parser, section, task.instance_id)
        except UnknownParser:
            if self.compat:
                return {}
            raise
        found: dict[str, str] = {}
        for name, status in statuses.items():
            short = without_time(name)
            found[short] = status if self.compat else combine(found.get(short), status)
        return found

    def judge(self, task: Task, statuses: Mapping[str, str], exit_code: int | None) -> Resolution:
        """Whether those statuses resolve the task."""
        resolution = require_all(task.grading, statuses, exit_code, lambda name: statuses.get(without_time(name)))
        if not self.compat:
            return resolution
        required = {**resolution.tests.fail_to_pass, **resolution.tests.pass_to_pass}
        resolved = all(status == "PASSED" for status in required.values())
        return resolution.model_copy(
            update={"resolved": resolved, "reason": "" if resolved else resolution.reason, "flags": ()}
        )


def _parser(config: Fields, commands: tuple[str, ...]) -> str:
    """The parser that the row names; one that names none may run pytest."""
    named = config.optional_text("log_parser")
    if named:
        return named
    if any("pytest" in command for command in commands):
        return "parse_log_pytest"
    raise config.error("the field 'log_parser' is missing", "name the parser of the test command's output")


def _read(parser: str, section: str, instance: str) -> dict[str, str]:
    own = SWE_REBENCH.get(parser)
    return own(section) if own is not None else parse_log(parser, section, instance)
