"""Runs of other tools become run directories: what they say is there, what they do not say is not invented."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from swe_sdk.errors import InputError
from swe_sdk.imports.importing import detect_format, import_run
from swe_sdk.store.index import RunIndex, open_index
from tests.shared import shared_dir


def imported(tmp_path: Path, source: Path, name: str = "r", **more) -> RunIndex:
    report = import_run(source, tmp_path / name, **more)
    index = open_index(tmp_path / name, index_dir=tmp_path / "ix")
    assert index.count() == report.rollouts
    assert index.status().bad_lines == 0
    return index


ROLLOUT_FILES = (
    "anyswe_agent/example_rollouts_claude_code.trimmed.jsonl",
    "anyswe_agent/example_rollouts_opencode.trimmed.jsonl",
    "swe_agents_legacy/example_rollouts.trimmed.jsonl",
    "swe_env_pr/example_rollouts.jsonl",
    "swe_rebench/example_rollouts.trimmed.jsonl",
    "swebench/example_rollouts.trimmed.jsonl",
    "swebench_pro/example_rollouts.trimmed.jsonl",
)


@pytest.mark.shared
@pytest.mark.parametrize("name", ROLLOUT_FILES)
def test_rollouts_of_nemo_gym(tmp_path, name):
    source = shared_dir() / "datasets/rows/nemo_gym" / name
    rows = [json.loads(line) for line in source.read_text().splitlines()]
    with imported(tmp_path, source) as index:
        found = index.rollouts(limit=100, sort="rollout_id").rows
        assert len(found) == len(rows)
        assert sorted(row.reward for row in found) == sorted(row["reward"] for row in rows)
        assert {row.is_final for row in found} == {True}
        assert index.run().source == "nemo-gym"
        agents = {row["agent_ref"]["name"] for row in rows if "agent_ref" in row}
        assert {row.agent for row in found} == (agents or {""})
        for row in found:
            (theirs,) = [r for r in rows if row.instance_id in json.dumps(r)]
            output = theirs["response"].get("output") or []
            shown = [item for item in output if item["type"] != "function_call_output"]
            assert row.steps == len(shown)
            steps = index.steps(row.rollout_id, limit=1000).rows
            assert [step.step_kind for step in steps] == [
                "action" if item["type"] == "function_call" else "message" for item in shown
            ]
            usage = theirs["response"].get("usage") or {}
            assert row.tokens_in == (usage.get("input_tokens", 0) if shown else 0)
            patch = theirs.get("model_patch") or (theirs["response"].get("metadata") or {}).get("model_patch")
            kept = index.patch(row.rollout_id)
            assert (kept.text if kept else "") == (patch or "")


def test_masks_doubles_and_bad_rows_of_nemo_gym(tmp_path):
    row = {"reward": 0.0, "instance_id": "a__b-1", "response": {"output": "odd"}, "responses_create_params": {}}
    rows = [row, {**row, "reward": 1.0}, {**row, "mask_sample": True, "failure_kind": "sandbox_lost"}]
    lines = [json.dumps(each) for each in rows]
    source = tmp_path / "rollouts.jsonl"
    source.write_text("\n".join([*lines, "{", "[]", json.dumps({"reward": 1.0}), "[" * 5000, ""]))
    report = import_run(source, tmp_path / "r")
    assert (report.format, report.rollouts) == ("nemo-gym", 3)
    assert [place for place, _why in report.skipped] == [f"rollouts.jsonl:{n}" for n in (4, 5, 6, 7)]
    with open_index(tmp_path / "r", index_dir=tmp_path / "ix") as index:
        statuses = [(row.rollout_id, row.status) for row in index.rollouts(sort="rollout_id").rows]
        assert statuses == [("a__b-1.0", "unresolved"), ("a__b-1.1", "resolved"), ("a__b-1.2", "masked")]
        assert index.run().reward_mean == 0.5
        assert index.masks().rows[0].mask.evidence["failure_kind"] == "sandbox_lost"


def harness_folder(tmp_path: Path, names: list[str]) -> Path:
    """Logs of the official harness, in the folders that it makes."""
    logs = shared_dir() / "datasets/logs/official_local/final_gold"
    for name in names:
        folder = tmp_path / "logs/run_evaluation/try-1/gold" / name
        folder.mkdir(parents=True)
        shutil.copy(logs / f"{name}.report.json", folder / "report.json")
        shutil.copy(logs / f"{name}.test_output.txt", folder / "test_output.txt")
        (folder / "patch.diff").write_bytes(b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\xff\n")
        (folder / "run_instance.log").write_text("all went well\n")
    return tmp_path / "logs"


@pytest.mark.shared
def test_a_folder_of_the_official_harness(tmp_path):
    names = ["psf__requests-2317", "pallets__flask-5014", "sympy__sympy-23950"]
    source = harness_folder(tmp_path, names)
    gone = source / "run_evaluation/try-1/gold/lost__lost-1"
    gone.mkdir()
    (gone / "run_instance.log").write_text("docker: connection refused\n")
    unappliable = source / "run_evaluation/try-1/gold/bad__bad-1"
    unappliable.mkdir()
    (unappliable / "run_instance.log").write_text("x\n>>>>> Patch Apply Failed:\nhunk 1\n")
    broken = source / "run_evaluation/try-1/gold/broken__broken-1"
    broken.mkdir()
    (broken / "report.json").write_text("{")
    report = import_run(source, tmp_path / "r")
    assert [Path(place).name for place, _why in report.skipped] == ["broken__broken-1"]
    with open_index(tmp_path / "r", index_dir=tmp_path / "ix") as index:
        statuses = {row.instance_id: (row.status, row.mask_kind) for row in index.rollouts().rows}
        truth = {}
        for name in names:
            theirs = json.loads((source / f"run_evaluation/try-1/gold/{name}/report.json").read_text())[name]
            truth[name] = ("resolved" if theirs["resolved"] else "unresolved", None)
            outcome = index.outcome(f"{name}.0")
            for tests, label in (
                (outcome.tests.fail_to_pass, "FAIL_TO_PASS"),
                (outcome.tests.pass_to_pass, "PASS_TO_PASS"),
            ):
                want = theirs["tests_status"][label]
                assert sorted(t for t, s in tests.items() if s == "PASSED") == sorted(set(want["success"]))
                assert sorted(t for t, s in tests.items() if s == "FAILED") == sorted(set(want["failure"]))
            assert index.patch(f"{name}.0").data.endswith(b"\xff\n")
            (log,) = [row for row in index.artifacts(f"{name}.0") if row.name == "test_output.txt"]
            with index.open_artifact(log) as file:
                want = (source / f"run_evaluation/try-1/gold/{name}/test_output.txt").read_bytes()
                assert file.read_window(0, file.size) == want
        assert statuses == {**truth, "lost__lost-1": ("masked", "evaluator_failed"), "bad__bad-1": ("unresolved", None)}
        row = index.rollout(f"{names[0]}.0")
        assert (row.model, row.tags) == ("gold", {"evaluation": "try-1"})


TRAJECTORY = {
    "info": {
        "model_stats": {"instance_cost": 0.1, "api_calls": 2},
        "config": {"model": {"model_name": "openai/m"}},
        "mini_version": "2.0.0",
        "exit_status": "Submitted",
        "submission": "--- a/x\n+++ b/x\n",
    },
    "messages": [
        {"role": "system", "content": "You are"},
        {"role": "user", "content": "<pr_description>"},
        {
            "role": "assistant",
            "content": None,
            "extra": {
                "timestamp": 1795984000.5,
                "actions": [{"command": "ls -la\nmore"}],
                "response": {"usage": {"prompt_tokens": 11, "completion_tokens": 3}},
            },
        },
        {
            "role": "tool",
            "content": "<output>",
            "extra": {"raw_output": "README\n", "returncode": 0, "timestamp": 1795984001},
        },
        {"role": "exit", "content": "diff"},
    ],
    "trajectory_format": "mini-swe-agent-1.1",
}


def test_trajectories_of_mini_swe_agent(tmp_path):
    folder = tmp_path / "out"
    for path, changes in (
        ("a__b-1/a__b-1.traj.json", {}),
        (
            "c__d-2/trajectory.traj.json",
            {"info": {**TRAJECTORY["info"], "exit_status": "LimitsExceeded", "submission": ""}},
        ),
        ("x/y.traj.json", {"instance_id": "named__in-3", "info": None}),
    ):
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(json.dumps({**TRAJECTORY, **changes}))
    (folder / "bad.traj.json").write_text("[]")
    report = import_run(folder, tmp_path / "r")
    assert (report.format, report.rollouts, len(report.skipped)) == ("mini-swe-agent", 3, 1)
    with open_index(tmp_path / "r", index_dir=tmp_path / "ix") as index:
        row = index.rollout("a__b-1.0")
        assert (row.status, row.reward, row.steps, row.tokens_in, row.model) == ("stopped", 0.0, 2, 11, "openai/m")
        assert (row.agent, row.agent_version, row.seconds) == ("mini-swe-agent", "2.0.0", 0.5)
        assert "not graded" in row.reason
        model, action = (step.step for step in index.steps("a__b-1.0").rows)
        assert (model.summary, model.data["commands"]) == ("ls -la", ["ls -la\nmore"])
        assert (action.summary, action.data["returncode"]) == ("0: README", 0)
        assert index.patch("a__b-1.0").text == TRAJECTORY["info"]["submission"]
        assert index.attempts("c__d-2.0")[0].end_reason == "step_limit"
        assert index.patch("c__d-2.0") is None
        assert index.attempts("named__in-3.0")[0].end_reason == "unknown"
        assert index.run().reward_mean is None
    assert detect_format(folder / "a__b-1/a__b-1.traj.json") == "mini-swe-agent"


def test_what_cannot_be_imported(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").write_text("")
    for source in ("empty", "file.txt", "none"):
        with pytest.raises(InputError, match="cannot tell what"):
            import_run(tmp_path / source, tmp_path / "r")
    with pytest.raises(InputError, match="there is no"):
        import_run(tmp_path / "none.jsonl", tmp_path / "r")
    with pytest.raises(InputError, match="did you mean swe-bench"):
        import_run(tmp_path / "empty", tmp_path / "r", format="swebench")
    assert not (tmp_path / "r").exists()
    rows = tmp_path / "rows.jsonl"
    rows.write_text("")
    assert import_run(rows, tmp_path / "r").rollouts == 0
    with pytest.raises(InputError, match="already"):
        import_run(rows, tmp_path / "r")


def test_names_that_are_no_text_and_links_of_the_official_harness(tmp_path):
    """A folder that comes from elsewhere: its links would bring files of ours into the run."""
    (tmp_path / "secret").write_text("of ours")
    folder = tmp_path / os.fsdecode(b"logs/run_evaluation/r\xff/m\xff/inst\xe9-1")
    folder.mkdir(parents=True)
    (folder / "report.json").write_text('{"resolved": false}')
    (folder / "patch.diff").symlink_to(tmp_path / "secret")
    (folder / "test_output.txt").symlink_to(tmp_path / "secret")
    with imported(tmp_path, tmp_path / "logs", format="swe-bench") as index:
        (row,) = index.rollouts().rows
        assert (row.rollout_id, row.model, row.status) == ("inst?-1.0", "m?", "unresolved")
        assert [each.name for each in index.artifacts(row.rollout_id)] == ["report.json"]
