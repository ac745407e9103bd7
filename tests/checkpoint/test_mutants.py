"""The list of defects fits the source: each line stands once, and each test exists. The script puts them back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkpoint.mutants import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_line_of_a_defect_stands_once(mutant: Mutant) -> None:
    source = (ROOT / "swe_sdk" / "checkpoint" / mutant.file).read_text()
    assert source.count(mutant.before) == 1
    file, _, name = mutant.test.partition("::")
    assert f"def {name}" in (ROOT / "tests" / "checkpoint" / file).read_text()


def test_every_criterion_has_a_defect_and_the_page_counts_them() -> None:
    page = (ROOT / "docs" / "checkpoints.md").read_text()
    assert f"puts {len(MUTANTS)} defects back" in page
    names = {mutant.name.split(":")[0] for mutant in MUTANTS}
    assert {f"CK-{number}" for number in (*range(1, 13), 14, 15)} <= names
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_a_defect_is_found() -> None:
    command = [sys.executable, "scripts/checkpoint_mutants.py", "CK-5"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 defects were found" in done.stdout
