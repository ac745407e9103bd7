"""``make evidence`` against a scripted model: three cases hold, and the folder says how it came to that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.checkpoint_evidence import main
from swe_sdk.paths import harnesses_dir
from swe_sdk.testing import ScriptedModel
from tests.agents.dialects import MINI, apply
from tests.agents.harness_lab import need_harness_installed
from tests.agents.tasks import gold, mini_task

KEY = "the-key-of-my-endpoint"


@pytest.mark.timeout(400)
def test_the_folder_has_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_harness_installed("mini-swe-agent")
    monkeypatch.setenv("SWE_SDK_HARNESSES", str(harnesses_dir()))
    monkeypatch.setenv("SWE_SDK_INDEX", str(tmp_path / "index"))
    monkeypatch.setenv("SWE_SDK_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    task, out = mini_task(), tmp_path / "evidence"
    script = MINI.script("ls", "echo one", "echo two", apply(gold(task)), "echo three", "echo four")
    slow = [turn.model_copy(update={"delay_s": 1.0}) for turn in script]
    with ScriptedModel(slow, api_key=KEY) as model:
        where = ["--base-url", model.url, "--model", model.model, "--out", str(out)]
        code = main([*where, "--instance-ids", task.instance_id, "--every-s", "1"])
    cases = {case["name"]: case for case in json.loads((out / "report.json").read_text())}
    assert (code, [case["problems"] for case in cases.values()]) == (0, [[], [], []])
    name = f"{task.instance_id}.0"
    truth, restored, rest = (cases[case]["rollouts"][name] for case in cases)
    assert (truth["status"], truth["attempt"]) == ("resolved", 1)
    assert (restored["status"], restored["attempt"], restored["observations_kept"]) == ("resolved", 2, True)
    assert restored["patch_sha256"] == truth["patch_sha256"]
    assert (rest["attempt"], rest["timed_out"]) == (2, True)
    assert rest["left_s"] < cases["remaining-budget"]["facts"]["budget_s"]
    assert (out / "commands.sh").read_text().count("swe-sdk run") == 3
    assert json.loads((out / "config.json").read_text())["options"]["model"] == model.model
    told = [path for path in out.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert told == [], "the key is nowhere"
