"""The SDK's own grades, by its command line as well."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.parity.grades import Case, Grade, Grader
from benchmarks.rows import Unavailable

_EVAL_STEPS = ("prelude", "tests")
"""What stands in an evaluation script. So do the reset and the test patch, which count as ours all the same."""


def run(name: str, folder: Path, tasks: Path, predictions: Mapping[str, Path], workers: int, *options: str) -> Grader:
    """Grade each kind of predictions, one command a kind; ``options`` are further ones of ``swe-sdk grade``."""
    folder.mkdir()
    grades: dict[Case, Grade] = {}
    before = os.getloadavg()[0]
    walls_s: dict[str, float] = {}
    for kind, file in predictions.items():
        output = folder / f"{kind}.jsonl"
        command = [sys.executable, "-m", "swe_sdk", "grade", str(tasks), "--unknown-fields", "ignore"]
        command += ["--patches", str(file), "--workers", str(workers), "--output", str(output)]
        command += ["--results", str(folder / f"results-{kind}"), *options]
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        walls_s[kind] = time.perf_counter() - start
        if done.returncode != 0:
            raise Unavailable(f"swe-sdk grade failed: {done.stderr.strip()[-300:]}")
        for outcome in map(json.loads, output.read_text("utf-8").splitlines()):
            grades[outcome["instance_id"], kind] = grade_of(outcome)
    return Grader(name, grades, walls_s, (before, os.getloadavg()[0]))


def grade_of(outcome: Mapping[str, Any]) -> Grade:
    """An Outcome as plain data in the common form."""
    mask, times = outcome["mask"], outcome["timings_s"]
    verdict = outcome["status"] if mask is None else f"masked: {mask['kind']} in {mask['stage']}"
    statuses = {**outcome["tests"]["fail_to_pass"], **outcome["tests"]["pass_to_pass"]}
    eval_s = sum(times.get(step, 0.0) for step in _EVAL_STEPS)
    return Grade(verdict, statuses, times["total"], eval_s, outcome["reason"])
