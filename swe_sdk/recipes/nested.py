"""Nested evaluation: the upstream's own evaluator, run in the box, gives the verdict.

The evaluator applies the patch, installs the tests, runs and parses them; we write its inputs, start it by its
documented command, and read its report out of the box. That gives the upstream's verdicts, defects included, and none
of our protections within the box: a submission shares the box with its own judge.

Commands, inputs and report are those that NeMo Gym uses; the evaluator runs in a folder of its own, as its files are
mounted read-only. The evaluators themselves are not a part of this package and
were not at hand when this was written: it is tested against stand-ins that keep to the documented interface.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swe_sdk.errors import EvaluatorFailed, UnknownParser
from swe_sdk.model.outcome import MISSING, TestReport
from swe_sdk.model.patch import EMPTY_PATCH
from swe_sdk.model.task import Task
from swe_sdk.paths import evaluators_dir
from swe_sdk.recipes.contract import Recipe, Resolution, Rung
from swe_sdk.recipes.parsers.status import FAILED, PASSED

VERDICT = "(the evaluator's verdict)"
"""Stands among the statuses for what the report says of the instance."""

_PARSER = "evaluator_report"
_REPORT = "report.json"
_PATCH = "/root/model.patch"
_LADDER = (Rung(name="predictions", command=f'mkdir -p /root && cp "$PATCH" {_PATCH}'),)
"""The evaluator applies the patch; we hand it over."""

_DATASET = "/root/dataset/data.jsonl"
_WRITE = f"""\
import json, os
text = ""
if os.path.exists("{_PATCH}"):
    with open("{_PATCH}", encoding="utf-8", errors="surrogateescape", newline="") as file:
        text = file.read()
with open("{_DATASET}") as file:
    instance = json.load(file)["instance_id"]
prediction = {{"instance_id": instance, "model_name_or_path": "model", "model_patch": text}}
with open("/root/predictions.jsonl", "w", encoding="utf-8", errors="surrogateescape") as file:
    file.write(json.dumps(prediction, ensure_ascii=False) + "\\n")
"""


@dataclass(frozen=True)
class Evaluator:
    """An upstream's evaluator: ``folder`` in the box, the repository in it, and the command with its gaps."""

    folder: str
    repository: str
    command: str

    @property
    def home(self) -> str:
        """Where the evaluator's own files are."""
        return f"{self.folder}/{self.repository}"


_SWE_BENCH = (
    "-m swebench.harness.run_local_evaluation --predictions_path /root/predictions.jsonl --instance_ids {instance}"
    " --timeout {timeout} --dataset_name /root/dataset/data.jsonl --split {split} --run_id swe_sdk"
)
_R2E = (
    "{home}/src/r2egym/agenthub/run/run_local_evaluation.py --predictions_path /root/predictions.jsonl"
    " --instance_id {instance} --timeout {timeout} --dataset /root/dataset/data.jsonl --output_dir /root/evaluation"
)
EVALUATORS: Mapping[str, Evaluator] = {
    "swe-bench": Evaluator("/swebench_setup", "SWE-bench", _SWE_BENCH),
    "swe-bench-multilingual": Evaluator("/swebench_multilingual_setup", "SWE-bench_Multilingual", _SWE_BENCH),
    "r2e-gym": Evaluator("/r2egym_setup", "R2E-Gym", _R2E),
}


class NestedRecipe:
    """A family whose verdicts its own evaluator gives, in the box; see :class:`swe_sdk.recipes.contract.Recipe`.

    ``flat`` is the recipe of the same family that reads rows and names images.
    """

    ladder = _LADDER
    timeout_s = 1800
    """What the evaluator is told; the time that a grade gives the tests should be larger."""
    remedy = "install the evaluator below $SWE_SDK_EVALUATORS or in the image, or grade without @nested"

    def __init__(self, flat: Recipe) -> None:
        self._flat = flat
        self._evaluator = EVALUATORS[flat.family]

    @property
    def family(self) -> str:
        """Such as ``swe-bench@nested``."""
        return f"{self._flat.family}@nested"

    @property
    def version(self) -> str:
        """Changes whenever the same input may get another verdict, as far as that is ours to know."""
        return f"{self.family}/1 ({self._flat.version})"

    def recognizes(self, row: Mapping[str, Any]) -> bool:
        """Never: nested evaluation is asked for by name."""
        return False

    def to_task(self, row: Mapping[str, Any], *, where: str, root: Path) -> Task:
        """The flat recipe's task, with the evaluator's inputs in the place of our commands; raises ``RowError``."""
        task = self._flat.to_task(row, where=where, root=root)
        grading = task.grading.model_copy(
            update={
                "test_patch": EMPTY_PATCH,
                "test_assets": {},
                "prelude": _prelude({**row, "instance_id": task.instance_id}),
                "test_command": self._command(task.instance_id, str(row.get("split") or "test")),
                "parser": _PARSER,
                "result_files": (_REPORT,),
                "eval_type": "pass_and_fail",
            }
        )
        return task.model_copy(update={"family": self.family, "grading": grading})

    def _command(self, instance: str, split: str) -> str:
        home = self._evaluator.home
        gaps = {"instance": shlex.quote(instance), "timeout": self.timeout_s, "split": shlex.quote(split), "home": home}
        return f"""\
mkdir -p /root/evaluation && cd /root/evaluation || exit 1
python=python3
for venv in {home}/venv {home}/.venv; do if [ -x "$venv/bin/python" ]; then python="$venv/bin/python"; fi; done
env -u VIRTUAL_ENV PYTHONPATH={home} "$python" {self._evaluator.command.format(**gaps)}
test_exit_code=$?
report="$(find /root/evaluation -type f -name "*{_REPORT}" | sort | head -n 1)"
[ -z "$report" ] || cp -- "$report" "$SWE_SDK_REPORTS/{_REPORT}"
(exit $test_exit_code)
"""

    def brings(self, task: Task) -> tuple[tuple[str, str], ...]:
        """The evaluator's folder on this machine, at its path in the box and at its own, which its programs name."""
        source = str(evaluators_dir() / self._evaluator.folder.strip("/"))
        return (source, self._evaluator.folder), (source, source)

    def needs(self, task: Task) -> tuple[tuple[str, ...], ...]:
        """The evaluator, and a Python to start it."""
        return ((self._evaluator.home,),)

    def parse(self, task: Task, section: str) -> dict[str, str]:
        """Nothing: the verdict is in a file. Raises ``UnknownParser`` where the task names another parser."""
        if task.grading.parser != _PARSER:
            raise UnknownParser(task.grading.parser, (_PARSER,))
        return {}

    def parse_results(self, task: Task, section: str, files: Mapping[str, bytes]) -> dict[str, str]:
        """The report's verdict on the instance, and the statuses of required tests where it lists them.

        Raises ``EvaluatorFailed`` where there is no report, where it cannot be read, or says nothing of the instance.
        """
        self.parse(task, section)
        verdict = _verdict(task.instance_id, files.get(_REPORT))
        return {**_listed(verdict), VERDICT: PASSED if verdict["resolved"] is True else FAILED}

    def judge(self, task: Task, statuses: Mapping[str, str], exit_code: int | None) -> Resolution:
        """What the evaluator said, but nothing is resolved for a task that requires no test."""
        spec = task.grading
        report = TestReport(
            fail_to_pass={name: statuses.get(name, MISSING) for name in spec.fail_to_pass},
            pass_to_pass={name: statuses.get(name, MISSING) for name in spec.pass_to_pass},
        )
        if not spec.fail_to_pass:
            reason = "the task lists no fail_to_pass test, so nothing can show that it is solved"
        else:
            reason = (
                "" if statuses.get(VERDICT) == PASSED else "the family's own evaluator says that it is not resolved"
            )
        return Resolution(resolved=not reason, tests=report, reason=reason, flags=("nested",))


def _prelude(row: Mapping[str, Any]) -> str:
    """Write the evaluator's inputs, by here-documents: a row can be longer than an argument may be."""
    parts = (
        f"mkdir -p {_DATASET.rpartition('/')[0]}",
        f"cat > {_DATASET} <<'SWE_SDK_ROW'\n{json.dumps(dict(row), default=str)}\nSWE_SDK_ROW",
        f"python3 - <<'SWE_SDK_END'\n{_WRITE}SWE_SDK_END",
    )
    return "\n".join(parts) + "\n"


def _verdict(instance: str, report: bytes | None) -> Mapping[str, Any]:
    if report is None:
        raise EvaluatorFailed("the evaluator left no report", remedy="read the log of the tests")
    try:
        parsed = json.loads(report.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise EvaluatorFailed("the evaluator's report is not JSON", remedy="read the log of the tests") from None
    found = parsed.get(instance, parsed) if isinstance(parsed, dict) else None
    if not isinstance(found, dict) or not isinstance(found.get("resolved"), bool):
        raise EvaluatorFailed(f"the evaluator's report says nothing of {instance}", remedy="read the log of the tests")
    return found


def _listed(verdict: Mapping[str, Any]) -> dict[str, str]:
    groups = verdict.get("tests_status")
    found: dict[str, str] = {}
    for group in groups.values() if isinstance(groups, dict) else ():
        for outcome, status in (("success", PASSED), ("failure", FAILED)):
            names = group.get(outcome) if isinstance(group, dict) else None
            found.update((name, status) for name in names or () if isinstance(name, str))
    return found
