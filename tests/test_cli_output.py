"""What the commands print, where standard output takes nothing more: one line and an exit code, never a traceback."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from swe_sdk.cli import main
from swe_sdk.store import events as ev
from swe_sdk.store.writer import RunWriter
from tests.shared import full_device

COMMANDS = {
    "--help": ("--help",),
    "show --help": ("show", "--help"),
    "runs": ("runs", "RUNS"),
    "runs --json": ("runs", "RUNS", "--json"),
    "show": ("show", "RUN"),
    "show --json": ("show", "RUN", "--json"),
    "show a rollout": ("show", "RUN", "a__b-1.0"),
    "show its log": ("show", "RUN", "a__b-1.0", "--log", "agent.log"),
    "checkpoints": ("checkpoints", "RUN"),
    "checkpoints --json": ("checkpoints", "RUN", "--json"),
    "snapshots": ("snapshots", "RUN"),
    "snapshots --json": ("snapshots", "RUN", "--json"),
    "compare": ("compare", "RUN", "RUN"),
    "agents": ("agents",),
    "agents --json": ("agents", "--json"),
    "doctor": ("doctor",),
    "doctor --json": ("doctor", "--json"),
    "reap": ("reap", "--dry-run", "--provider", "local"),
    "reap --json": ("reap", "--dry-run", "--provider", "local", "--json"),
}
SERVERS = {
    "serve": ("serve", "--provider", "local", "--port", "0"),
    "dashboard": ("dashboard", "RUNS", "--port", "0"),
}
SAID = "swe-sdk: standard output: No space left on device (send it where there is room for it)\n"


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with one rollout and a long log."""
    path = tmp_path_factory.mktemp("runs") / "run"
    with RunWriter(path, sync=False) as writer:
        about = {"rollout_id": "a__b-1.0", "attempt": 1}
        writer.append(ev.RunStarted(name="demo", agent="gold", rollouts=1))
        writer.append(ev.RolloutQueued(rollout_id="a__b-1.0", instance_id="a__b-1"))
        writer.append(ev.AttemptStarted(**about))
        with writer.artifact("agent.log", **about) as log:
            log.write(b"line after line\n" * 20_000)
        writer.append(ev.RolloutEnded(**about, status="resolved", reward=1.0))
        writer.append(ev.RunEnded(reason="finished"))
    return path


def filled(run_dir: Path, words: tuple[str, ...]) -> list[str]:
    places = {"RUN": str(run_dir), "RUNS": str(run_dir.parent)}
    return [places.get(word, word) for word in words]


def program(run_dir: Path, words: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-m", "swe_sdk", *filled(run_dir, words)]


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    state = {name: str(tmp_path / name) for name in ("SWE_SDK_STATE", "SWE_SDK_INDEX", "SWE_SDK_RUNS")}
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return {**buffered, **state}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_full_disk_is_one_line_and_an_exit_code(
    run_dir: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with full_device().open("w") as full, replaced_output(full):
        assert main(filled(run_dir, words)) == 1
    assert capsys.readouterr().err == SAID


@pytest.mark.parametrize("words", [COMMANDS["--help"], COMMANDS["show --json"], *SERVERS.values()])
def test_nothing_is_said_as_the_program_ends(run_dir: Path, home: dict[str, str], words: tuple[str, ...]) -> None:
    with full_device().open("w") as full:
        done = subprocess.run(
            program(run_dir, words), env=home, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert (done.returncode, done.stderr) == (1, SAID)


@pytest.mark.parametrize("name", ["show --json", "--help"])
def test_a_reader_who_has_gone_is_told_nothing(run_dir: Path, home: dict[str, str], name: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(program(run_dir, COMMANDS[name]), env=home, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_head_reads_what_it_wants(run_dir: Path, home: dict[str, str]) -> None:
    command = [*program(run_dir, COMMANDS["show its log"]), "--lines", "20000"]
    writer = subprocess.Popen(command, env=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stderr is not None
    assert writer.stdout.readline() == b"line after line\n"
    writer.stdout.close()
    assert (writer.wait(30), writer.stderr.read()) == (141, b"")
    writer.stderr.close()


def test_a_closed_descriptor_is_an_error_too(run_dir: Path, home: dict[str, str]) -> None:
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *program(run_dir, COMMANDS["runs"])]
    done = subprocess.run(shell, env=home, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("swe-sdk: standard output: Bad file descriptor")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("words", "code"), [(("show", "nowhere"), 2), (("runs", "RUNS"), 1)])
def test_where_nobody_can_be_told_the_exit_code_tells(
    run_dir: Path, home: dict[str, str], words: tuple[str, ...], code: int
) -> None:
    with full_device().open("w") as full:
        done = subprocess.run(program(run_dir, words), env=home, stdout=full, stderr=full)
    assert done.returncode == code


class Failing(io.StringIO):
    """Takes some text, and then nothing more."""

    def write(self, text: str) -> int:
        if self.tell() > 100:
            raise OSError(28, "No space left on device")
        return super().write(text)


def test_the_stream_of_a_caller_is_its_own_again(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with replaced_output(Failing()) as stream:
        assert main(["show", str(run_dir), "--json"]) == 0, "all of it is one write"
        assert sys.stdout is stream
        assert main(["show", str(run_dir)]) == 1
        assert sys.stdout is stream
    assert capsys.readouterr().err.startswith("swe-sdk: standard output: No space left on device")


@contextmanager
def replaced_output(stream: TextIO) -> Iterator[TextIO]:
    before, sys.stdout = sys.stdout, stream
    try:
        yield stream
    finally:
        sys.stdout = before
