"""``swe-sdk run``, ``resume``, ``runs`` and ``show``: exit codes, tables, Ctrl-C; text of agents does nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from swe_sdk.cli import main
from swe_sdk.exports import read_nemo_gym_rows
from swe_sdk.runs.run import Run
from tests.grading.tiny import GOLD, TEST_PATCH, make_repo

MARK = f"8.{os.getpid()}"
"""Seconds that only a test of this process sleeps."""
HOSTILE = "\x1b]0;owned\x07[red]x[/red]\x1b[31m"


def row(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "instance_id": name,
        "family": "swe-bench",
        "repo": "tiny/answer",
        "directory": "repo",
        "test_command": "sh tests/check.sh",
        "log_parser": "parse_log_pytest",
        "patch": GOLD.decode(),
        "test_patch": TEST_PATCH.decode(),
        "FAIL_TO_PASS": ["check::answer"],
        "PASS_TO_PASS": ["check::runs"],
        **changes,
    }


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """State of its own for the commands that run here as processes."""
    return tmp_path_factory.mktemp("home")


Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environment(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    places = {"STATE": home / "state", "RUNS": tmp_path / "runs", "INDEX": tmp_path / "index"}
    for name, path in places.items():
        monkeypatch.setenv(f"SWE_SDK_{name}", str(path))
    return dict(os.environ)


@pytest.fixture
def cli(environment: dict[str, str], tmp_path: Path) -> Cli:
    """Run ``python -m swe_sdk`` to its end."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "error", "-m", "swe_sdk", *map(str, arguments)]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=100)

    return run


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Two tasks in a file."""
    make_repo(tmp_path / "repo")
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(row(f"tiny__answer-{n}")) + "\n" for n in (1, 2)))
    return path


SCRIPT = """
agent = "scripted"
provider = "local"
tests_timeout_s = "2m"

[[agent_settings.actions]]
do = "exec"
command = "sed -i 's/answer = 41/answer = 42/' src.txt"

[[agent_settings.actions]]
do = "exec"
command = ["printf", "%s", "{hostile}"]
"""


def config(folder: Path) -> Path:
    path = folder / "run.toml"
    path.write_text(SCRIPT.replace("{hostile}", json.dumps(HOSTILE)[1:-1]))
    return path


def test_a_run_is_made_and_looked_at(cli: Cli, dataset: Path, tmp_path: Path) -> None:
    path, rows = tmp_path / "runs" / "first", tmp_path / "rows.jsonl"
    done = cli("run", dataset, "--config", config(tmp_path), "--samples", 2, "--path", path, "--rows", rows)
    assert done.returncode == 0, done.stderr
    assert "4 resolved, 0 unresolved, 0 masked of 4 finished; mean reward 1.000" in done.stdout
    assert "pass@1 1.000" in done.stdout
    assert str(path) in done.stdout
    assert len(list(read_nemo_gym_rows(rows))) == 4

    listed = cli("runs")
    assert listed.returncode == 0
    assert "first" in listed.stdout
    (as_json,) = json.loads(cli("runs", "--json").stdout)
    assert (as_json["run"], as_json["agent"], as_json["counts"]) == ("first", "scripted", {"resolved": 4})

    shown = cli("show", path, "--status", "resolved", "--page", 2, "--page-size", 3)
    assert "tiny__answer-2.1" in shown.stdout
    assert "tiny__answer-1.0" not in shown.stdout
    one = cli("show", path, "tiny__answer-1.0", "--steps")
    assert (one.returncode, one.stderr) == (0, "")
    for part in ("invoke_agent", "verify", "output.log", "verify-1/test.log", "[red]x[/red]"):
        assert part in one.stdout
    log = cli("show", path, "tiny__answer-1.0", "--log", "output.log")
    assert log.stdout == "␛]0;owned␇[red]x[/red]␛[31m\n"
    assert "PASSED check::answer" in cli("show", path, "tiny__answer-1.0", "--log", "test.log").stdout
    assert "+answer = 42" in cli("show", path, "tiny__answer-1.0", "--patch").stdout
    settings = cli("show", path, "--config").stdout
    assert "tests_timeout_s" in settings
    assert "2m" in settings
    everything = json.loads(cli("show", path, "--json").stdout)
    assert everything["metrics"]["resolved"] == 4
    assert json.loads(cli("show", path, "tiny__answer-2.1", "--json").stdout)["outcome"]["status"] == "resolved"
    for each in (done, listed, shown, one, log):
        assert "\x1b" not in each.stdout + each.stderr


def test_only_the_first_tasks(cli: Cli, dataset: Path, tmp_path: Path) -> None:
    assert cli("run", dataset, "--agent", "noop", "--limit", 1, "--path", tmp_path / "one").returncode == 0
    with Run(tmp_path / "one") as run:
        assert list(run.rollouts) == ["tiny__answer-1.0"]


def test_masks_do_not_change_the_exit_code(cli: Cli, dataset: Path, tmp_path: Path) -> None:
    broken = row("tiny__broken-1", test_patch="--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n")
    dataset.write_text(dataset.read_text() + json.dumps(broken) + "\n")
    done = cli("run", dataset, "--agent", "gold", "--provider", "local", "--set", "retries=0", "--path", tmp_path / "r")
    assert done.returncode == 0, done.stderr
    assert "2 resolved, 0 unresolved, 1 masked (test_patch_failed 1) of 3 finished" in done.stdout
    assert "masked, 1 x: test_patch_failed in test_patch" in done.stdout
    assert "mean reward 1.000 over what was measured" in done.stdout


Stopping = tuple[subprocess.Popen[str], Path]


@pytest.fixture
def under_way(environment: dict[str, str], dataset: Path, tmp_path: Path) -> Iterator[Stopping]:
    """A run of which one rollout is finished, and one takes its time; and its path."""
    slow = row("tiny__slow-1", test_command=f"sleep {MARK}; sh tests/check.sh")
    dataset.write_text(json.dumps(row("tiny__quick-1")) + "\n" + json.dumps(slow) + "\n")
    path = tmp_path / "a run"
    command = [sys.executable, "-m", "swe_sdk", "run", str(dataset), "--agent", "gold", "--provider", "local"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [*command, "--workers", "2", "--path", str(path)], env=environment, stdout=pipe, stderr=pipe, text=True
    )
    deadline = time.monotonic() + 90
    while not (finished(path) == ["tiny__quick-1.0"] and sleeping(MARK)):
        assert time.monotonic() < deadline, process.kill()
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    yield process, path
    process.kill()
    process.communicate()


def to_it(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """As a terminal's Ctrl-C, a container's stop, ``kill``."""
    process.send_signal(number)


def to_all(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """As a batch system: every process of the job, those in boxes included, in the order in which they began."""
    for pid in [process.pid, *descendants(process.pid)]:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@pytest.mark.parametrize(
    ("number", "tell", "code", "how"),
    [
        (signal.SIGINT, to_it, 130, "interrupted"),
        (signal.SIGTERM, to_it, 143, "terminated"),
        (signal.SIGTERM, to_all, 143, "terminated"),
    ],
    ids=["Ctrl-C", "SIGTERM", "SIGTERM to all"],
)
def test_told_to_stop_it_stops_cleanly_and_resume_goes_on(
    number: signal.Signals,
    tell: Callable[[subprocess.Popen[str], signal.Signals], None],
    code: int,
    how: str,
    cli: Cli,
    under_way: Stopping,
) -> None:
    process, path = under_way
    tell(process, number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert f"swe-sdk resume '{path}'" in err
    assert "1 of 2 rollouts are finished" in err
    assert f"swe-sdk: {how}; every sandbox was torn down" in err
    assert "Traceback" not in err
    assert not sleeping(MARK)
    assert finished(path) == ["tiny__quick-1.0"]
    with Run(path) as run:
        assert run.row.end_reason == "stopped"
    resumed = cli("resume", path)
    assert resumed.returncode == 0, resumed.stderr
    assert "2 resolved, 0 unresolved, 0 masked of 2 finished" in resumed.stdout
    assert sorted(finished(path)) == ["tiny__quick-1.0", "tiny__slow-1.0"]


def test_told_twice_it_ends_at_once(cli: Cli, under_way: Stopping) -> None:
    """Even where it cannot clean up: here it is stopped in its tracks, with both signals waiting for it."""
    process, path = under_way
    os.kill(process.pid, signal.SIGSTOP)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    os.kill(process.pid, signal.SIGCONT)
    process.communicate(timeout=60)
    assert time.monotonic() - begin < 5
    assert process.returncode in (130, 143)
    resumed = cli("resume", path)
    assert resumed.returncode == 0, resumed.stderr
    assert sorted(finished(path)) == ["tiny__quick-1.0", "tiny__slow-1.0"]


def descendants(pid: int) -> list[int]:
    """Its children, theirs and so on, the oldest first."""
    try:
        files = list(Path(f"/proc/{pid}/task").glob("*/children"))
        children = [int(word) for file in files for word in file.read_text().split()]
    except OSError:
        return []
    return sorted({*children, *(one for child in children for one in descendants(child))})


def finished(path: Path) -> list[str]:
    if not (path / "run.json").exists():
        return []
    with Run(path) as run:
        return [row.rollout_id for row in run.rollouts.rows() if row.status == "resolved"]


def sleeping(mark: str) -> bool:
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f"sleep\0{mark}".encode() in entry.read_bytes():
                return True
        except OSError:
            continue
    return False


BAD = {
    "unknown agent": (["run", "tasks.jsonl", "--agent", "glod"], "did you mean gold"),
    "unknown setting": (["run", "tasks.jsonl", "--agent", "gold", "--set", "tests_timeout=3"], "tests_timeout_s"),
    "no limit": (["run", "tasks.jsonl", "--limit", "0"], "--limit 0"),
    "no pair": (["run", "tasks.jsonl", "--set", "tests_timeout_s"], "KEY=VALUE"),
    "table over a value": (["run", "tasks.jsonl", "--set", "samples=1", "--set", "samples.x=1"], "samples"),
    "no duration": (["run", "tasks.jsonl", "--agent", "gold", "--budget", "soon"], "budget_s"),
    "no configuration": (["run", "tasks.jsonl", "--config", "none.toml"], "none.toml"),
    "yaml": (["run", "tasks.jsonl", "--config", "run.yaml"], ".toml or .json"),
    "half a model": (["run", "tasks.jsonl", "--model", "m"], "--base-url"),
    "needs a model": (["run", "tasks.jsonl", "--agent", "scripted", "--set", 'agent_settings.egress="model"'], "model"),
    "no tasks": (["run", "none.jsonl"], "none.jsonl"),
    "rows cannot be written": (["run", "tasks.jsonl", "--agent", "gold", "--rows", "repo"], "cannot write repo"),
    "no run to show": (["show", "repo"], "no run directory"),
    "no run to resume": (["resume", "repo"], "no run directory"),
    "no directory of runs": (["runs", "nowhere"], "nowhere"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_exit_2(
    name: str,
    dataset: Path,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, expected = BAD[name]
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert expected in captured.err
    assert captured.out == ""
    assert len(captured.err.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_unknown_rollouts_and_files_are_bad_input(cli: Cli, dataset: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    assert cli("run", dataset, "--agent", "noop", "--provider", "local", "--path", path, "--quiet").returncode == 0
    for arguments, expected in (
        (["show", path, "tiny__answer-3.0"], "tiny__answer-1.0"),
        (["show", path, "tiny__answer-1.0", "--log", "none.log"], "patch.diff"),
        (["show", path, "--log", "test.log"], "one rollout"),
    ):
        done = cli(*arguments)
        assert done.returncode == 2
        assert expected in done.stderr
    again = cli("run", dataset, "--agent", "noop", "--provider", "local", "--path", path)
    assert again.returncode == 2
    assert "resume" in again.stderr
