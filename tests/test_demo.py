"""The demo: every row comes out as it promises, and it says where things are and what to try next."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from swe_sdk import demo
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.store.results import read_outcomes
from tests.grading.test_many import outcome


def test_examples_show_every_status():
    rows = demo.examples(load_tasks("mini"))
    assert {row.status for row in rows} == {"resolved", "unresolved", "masked"}
    assert all(row.patch.exists for row in rows if row.label != "empty")
    assert len({(row.task.instance_id, row.label) for row in rows}) == len(rows)


def test_a_row_that_comes_out_otherwise_is_no_success():
    row = demo.examples(load_tasks("mini"))[0]
    assert row.is_kept_by(outcome("resolved"))
    assert not row.is_kept_by(outcome("unresolved"))
    assert not row.is_kept_by(outcome("masked"))


@pytest.mark.network
def test_demo(tmp_path):
    """From nothing: environments are built on the way (two of them need pytest from the package index)."""
    environment = {**os.environ, "SWE_SDK_STATE": str(tmp_path / "state"), "SWE_SDK_RESULTS": str(tmp_path / "results")}
    command = [sys.executable, "-m", "swe_sdk", "demo"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("resolved", "unresolved", "masked", "swe-sdk validate mini"):
        assert word in done.stdout
    (results,) = (tmp_path / "results").iterdir()
    assert str(results) in done.stdout
    assert len(read_outcomes(results)) == len(demo.examples(load_tasks("mini")))
