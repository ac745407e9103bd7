"""The command line: exit codes, one clear line for bad input, outcomes as they finish, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from swe_sdk.cli import main
from swe_sdk.sandbox.registry import provider_names
from swe_sdk.store.results import read_outcomes
from tests.grading.tiny import GOLD, TEST_PATCH, UNAPPLIABLE, WRONG, make_repo


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """State of its own for the commands that run here as processes."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def cli(home, tmp_path):
    """Run ``python -m swe_sdk`` to its end."""
    environment = {**os.environ, "SWE_SDK_STATE": str(home / "state"), "SWE_SDK_RESULTS": str(home / "results")}

    def run(*args, wait=True):
        command = [sys.executable, "-m", "swe_sdk", *map(str, args)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True)
        if not wait:
            return process
        out, err = process.communicate(timeout=100)
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    run.environment = environment
    return run


def row(name="tiny__answer-1", **changes):
    return {
        "instance_id": name,
        "family": "swe-bench",
        "repo": "tiny/answer",
        "directory": "repo",
        "test_command": "sh tests/check.sh",
        "log_parser": "parse_log_pytest",
        "patch": GOLD.decode(),
        "test_patch": TEST_PATCH.decode(),
        "wrong_patch": WRONG.decode(),
        "FAIL_TO_PASS": ["check::answer"],
        "PASS_TO_PASS": ["check::runs"],
        "problem_statement": "the answer is wrong",
        **changes,
    }


@pytest.fixture
def dataset(tmp_path):
    """Two tasks in a file."""
    make_repo(tmp_path / "repo")
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(row(f"tiny__answer-{n}")) + "\n" for n in (1, 2)))
    return path


def lines_of(path: Path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("patches", "status"), [("gold", "resolved"), ("empty", "unresolved"), ("wrong", "unresolved")]
)
def test_grade_writes_an_outcome_a_line(cli, dataset, tmp_path, patches, status):
    out, results = tmp_path / "new" / "out.jsonl", tmp_path / "r"
    done = cli(
        "grade",
        dataset,
        "--patches",
        patches,
        "--provider",
        "local",
        "--workers",
        2,
        "--output",
        out,
        "--results",
        results,
    )
    assert done.returncode == 0, done.stderr
    lines = lines_of(out)
    assert sorted(line["instance_id"] for line in lines) == ["tiny__answer-1", "tiny__answer-2"]
    assert {line["status"] for line in lines} == {status}
    assert {line["reward"] for line in lines} == {1.0 if status == "resolved" else 0.0}
    assert all(line["mask"] is None and line["tests"]["fail_to_pass"] for line in lines)
    assert f"2 {status}" in done.stdout
    assert str(results) in done.stdout.replace("\n", "")
    assert len(read_outcomes(results)) == 2


def test_grade_takes_predictions_and_reports_masks_with_exit_0(cli, dataset, tmp_path):
    rows = [row("a"), row("b"), row("broken", test_patch=UNAPPLIABLE.decode()), row("unpredicted")]
    dataset.write_text("".join(json.dumps(r) + "\n" for r in rows))
    patches = {"a": GOLD.decode(), "b": UNAPPLIABLE.decode(), "broken": GOLD.decode()}
    predictions = tmp_path / "predictions.jsonl"
    predictions.write_text(
        "".join(
            json.dumps({"instance_id": k, "model_patch": v, "model_name_or_path": "m"}) + "\n"
            for k, v in patches.items()
        )
    )
    out = tmp_path / "out.jsonl"
    done = cli("grade", dataset, "--patches", predictions, "--output", out)
    assert done.returncode == 0, done.stderr
    assert {line["instance_id"]: line["status"] for line in lines_of(out)} == {
        "a": "resolved",
        "b": "unresolved",
        "broken": "masked",
    }
    assert "1 without a patch" in done.stdout
    one = tmp_path / "one.jsonl"
    assert cli("grade", dataset, "--patches", predictions, "--instance-ids", "b", "--output", one).returncode == 0
    assert [line["instance_id"] for line in lines_of(one)] == ["b"], "a file may hold patches of other tasks too"


def test_instance_ids_select(cli, dataset, tmp_path):
    out = tmp_path / "out.jsonl"
    assert cli("grade", dataset, "--instance-ids", "tiny__answer-2", "--output", out).returncode == 0
    assert [line["instance_id"] for line in lines_of(out)] == ["tiny__answer-2"]


def test_instance_ids_add_up(cli, dataset, tmp_path):
    dataset.write_text("".join(json.dumps(row(name)) + "\n" for name in "abc"))
    out = tmp_path / "out.jsonl"
    done = cli("grade", dataset, "--instance-ids", "a", "--instance-ids", "c", "--output", out)
    assert done.returncode == 0, done.stderr
    assert {line["instance_id"] for line in lines_of(out)} == {"a", "c"}


BAD = {
    "missing file": (["grade", "nothing.jsonl"], "nothing.jsonl"),
    "unknown id": (["grade", "tasks.jsonl", "--instance-ids", "tiny__answer-9"], "tiny__answer-9"),
    "missing predictions": (["grade", "tasks.jsonl", "--patches", "no.jsonl"], "no.jsonl"),
    "unknown provider": (["grade", "tasks.jsonl", "--provider", "nowhere"], "nowhere"),
    "base image for local": (["grade", "tasks.jsonl", "--provider", "local", "--base-image", "x"], "--base-image"),
    "unknown policy": (["grade", "tasks.jsonl", "--policy", "nonsense"], "nonsense"),
    "no workers": (["grade", "tasks.jsonl", "--workers", "0"], "limit=0"),
    "no time": (["grade", "tasks.jsonl", "--timeout", "0"], "tests_timeout_s"),
    "no runs": (["validate", "tasks.jsonl", "--n", "0"], "n=0"),
    "output is a folder": (["grade", "tasks.jsonl", "--output", "repo"], "cannot write repo"),
    "results is a file": (["grade", "tasks.jsonl", "--results", "tasks.jsonl"], "results directory"),
    "unknown command": (["nonsense"], "nonsense"),
    "no command": ([], "COMMAND"),
    "not a number": (["grade", "tasks.jsonl", "--workers", "many"], "--workers"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_exit_2(dataset, name, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWE_SDK_RESULTS", str(tmp_path / "results"))
    arguments, expected = BAD[name]
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert expected in captured.err
    assert captured.out == ""
    assert "Traceback" not in captured.err
    last = captured.err.strip().splitlines()
    assert len(last) == 1 or last[0].startswith("usage: ")


def test_malformed_row_is_named(dataset, capsys, tmp_path):
    dataset.write_text(json.dumps(row()) + "\n" + json.dumps({**row("b"), "test_command": 7}) + "\n")
    assert main(["grade", str(dataset), "--results", str(tmp_path / "r")]) == 2
    assert "tasks.jsonl:2" in capsys.readouterr().err


def test_help(capsys):
    assert main(["--help"]) == 0
    assert "doctor" in capsys.readouterr().out


def test_validate(cli, dataset, tmp_path):
    rows = [row("sound"), row("unsound", wrong_patch=GOLD.decode())]
    dataset.write_text("".join(json.dumps(r) + "\n" for r in rows))
    out = tmp_path / "health.json"
    done = cli("validate", dataset, "--n", 2, "--provider", "local", "--json", out)
    assert done.returncode == 0, done.stderr
    health = json.loads(out.read_text())
    assert {t["instance_id"]: t["status"] for t in health["tasks"]} == {"sound": "healthy", "unsound": "unhealthy"}
    assert health["tasks"][0]["runs"]["gold"] == ["resolved", "resolved"]
    assert "its wrong patch resolves it" in done.stdout
    assert cli("validate", dataset, "--n", 1, "--strict").returncode == 1


def test_doctor(cli):
    done = cli("doctor", "--json")
    assert done.returncode == 0, done.stderr
    providers = {p["provider"]: p for p in json.loads(done.stdout)["providers"]}
    assert providers["local"]["works"] is True
    assert set(providers) == set(provider_names())
    for name in providers:
        assert providers[name]["works"] or (providers[name]["reason"] and providers[name]["remedy"])
    shown = cli("doctor")
    assert shown.returncode == 0
    assert "local" in shown.stdout


def box_processes(mark: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark in entry.read_bytes().decode(errors="replace"):
                found.append(entry.parent.name)
        except OSError:
            continue
    return found


def test_ctrl_c_tears_down_and_says_where_the_rest_is(cli, dataset, tmp_path):
    """One task is finished and one hangs: exit 130, the finished one on disk, no process left."""
    mark = f"98{os.getpid()}"
    rows = [row("quick"), row("slow", test_command=f"sleep {mark}")]
    dataset.write_text("".join(json.dumps(r) + "\n" for r in rows))
    out, results = tmp_path / "out.jsonl", tmp_path / "r"
    process = cli("grade", dataset, "--workers", 2, "--output", out, "--results", results, wait=False)
    deadline = time.monotonic() + 60
    while not (out.exists() and lines_of(out) and box_processes(mark)):
        assert time.monotonic() < deadline, process.kill()
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert str(results) in err.replace("\n", "")
    assert "Traceback" not in err
    assert [line["instance_id"] for line in lines_of(out)] == ["quick"]
    assert [o.instance_id for o in read_outcomes(results)] == ["quick"]
    assert box_processes(mark) == []


def test_text_of_tasks_is_never_markup(cli, dataset, tmp_path):
    name = "tiny__[red]x[/red]"
    dataset.write_text(json.dumps(row(name)) + "\n")
    done = cli("grade", dataset)
    assert done.returncode == 0, done.stderr
    assert "[red]x[/red]" in done.stdout
