"""The official harness, run by its own command line, and what its files say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.parity.grades import Case, Grade, Grader
from benchmarks.parity.tasks import Row
from benchmarks.rows import Unavailable
from swe_sdk.model.outcome import MISSING

_TIMEOUT_S = 1800
_RUNTIME = re.compile(r"Test runtime: ([\d_.]+) seconds")
_STAMP = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) - ", re.MULTILINE)


def harness_version() -> str:
    """Of the package; ``Unavailable`` where it is not installed."""
    try:
        return version("swebench")
    except PackageNotFoundError:
        raise Unavailable("the official harness is not installed (pip install swebench==5.0.2)") from None


def run(
    folder: Path, run_id: str, tasks: Path, predictions: dict[str, Path], rows: Sequence[Row], workers: int
) -> Grader:
    """Grade each kind of predictions, one command a kind, its files below ``folder``."""
    grades: dict[Case, Grade] = {}
    before = os.getloadavg()[0]
    walls_s: dict[str, float] = {}
    for kind, file in predictions.items():
        command = [sys.executable, "-m", "swebench.harness.run_evaluation", "--dataset_name", str(tasks)]
        command += ["--split", "test", "--predictions_path", str(file), "--run_id", run_id, "--report_dir", str(folder)]
        command += ["--max_workers", str(workers), "--timeout", str(_TIMEOUT_S)]
        start = time.perf_counter()
        with (folder / f"{kind}.log").open("wb") as log:
            subprocess.run(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, check=False)
        walls_s[kind] = time.perf_counter() - start
        predicted = {prediction["instance_id"] for prediction in map(json.loads, file.read_text("utf-8").splitlines())}
        logs = folder / "logs" / "run_evaluation" / run_id / kind
        for row in rows:
            if row["instance_id"] in predicted:
                grades[row["instance_id"], kind] = _read(logs / row["instance_id"], row, kind)
    return Grader(f"swebench {harness_version()}", grades, walls_s, (before, os.getloadavg()[0]))


def _read(folder: Path, row: Row, kind: str) -> Grade:
    """From the files of one instance. An empty patch has none: the harness does not run it."""
    if kind == "empty":
        return Grade("empty") if not folder.exists() else Grade("run", note="the harness has run an empty patch")
    log = folder / "run_instance.log"
    text = log.read_text("utf-8", "replace") if log.exists() else ""
    wall_s, eval_s = _span_s(text), _eval_s(text)
    report = folder / "report.json"
    if not report.exists():
        return Grade("no report", wall_s=wall_s, eval_s=eval_s, note=_trouble(text))
    resolved = json.loads(report.read_text("utf-8"))[row["instance_id"]]["resolved"]
    verdict = "resolved" if resolved else "unresolved"
    return Grade(verdict, dict(_statuses(row, folder / "test_output.txt")), wall_s, eval_s)


def _statuses(row: Row, log: Path) -> Iterator[tuple[str, str]]:
    """Of each required test, by the harness's own parser and its own rule for ids that were cut."""
    from swebench.harness.grading import _resolve_case, get_logs_eval

    statuses, _found = get_logs_eval(_spec(row), str(log))
    for test in (*_ids(row["FAIL_TO_PASS"]), *_ids(row["PASS_TO_PASS"])):
        key = _resolve_case(test, statuses)
        yield test, MISSING if key is None else statuses[key]


def _spec(row: Row) -> Any:
    from swebench.types import TestSpec

    return TestSpec(
        instance_id=row["instance_id"],
        image=row["image"],
        eval_script_list=[],
        repo=row["repo"],
        version=row["version"],
        FAIL_TO_PASS=_ids(row["FAIL_TO_PASS"]),
        PASS_TO_PASS=_ids(row["PASS_TO_PASS"]),
        log_parser=row["log_parser"],
        eval_type=row["eval_type"],
    )


def _ids(value: str | list[str]) -> list[str]:
    """Rows of the hub have lists as JSON."""
    return json.loads(value) if isinstance(value, str) else value


def _trouble(log: str) -> str:
    """The last error that an instance's log names."""
    named = [line for line in log.splitlines() if re.match(r"[\w.]+(Error|Exception)\b", line)]
    return named[-1][-300:] if named else "its log names no error"


def _span_s(log: str) -> float:
    """From the first line of an instance's log, before its container is made, to the last, when that is removed."""
    stamps = [datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S,%f") for stamp in _STAMP.findall(log)]
    return (stamps[-1] - stamps[0]).total_seconds() if stamps else 0.0


def _eval_s(log: str) -> float:
    found = _RUNTIME.search(log)
    return float(found[1]) if found else 0.0
