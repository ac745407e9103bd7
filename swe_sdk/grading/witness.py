"""A second account of a test run: what the runner itself was told, in a file outside of the repository.

A log can be forged by whatever prints to it. The recorder of :mod:`swe_sdk.grading.boxside.witness` runs within the
test process too, so a program that knows of it can deceive it, but no line that a program prints gets into its file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from swe_sdk.grading.box_git import BoxGit, require_alive
from swe_sdk.grading.boxside.witness import ORDER
from swe_sdk.grading.words import shell_words

Runner = Literal["pytest", "unittest", "sympy"]

MAX_RECORDS_BYTES = 64 << 20
_READ_TIMEOUT_S = 30.0
_SHIELDS_PYTHON = frozenset({"-I", "-E", "-S", "sudo", "su", "runuser", "gosu", "setpriv", "chroot", "docker"})
"""Words that may keep a Python from seeing the recorder, or from writing its records."""
_THROUGH_TOX = (
    f'export TOX_TESTENV_PASSENV="PYTHONPATH {ORDER}${{TOX_TESTENV_PASSENV+ $TOX_TESTENV_PASSENV}}"'
    f' TOX_OVERRIDE="testenv.pass_env+=PYTHONPATH,{ORDER}${{TOX_OVERRIDE+;$TOX_OVERRIDE}}"\n'
)
"""For tox 3, and for tox 4."""


class Record(NamedTuple):
    """One test's result, or a phase of it that failed."""

    status: str
    name: str


@dataclass(frozen=True)
class Watch:
    """How the tests of a command are witnessed.

    ``required``: every run of that command leaves records; otherwise they are used if they are there.
    ``through_tox``: the runner is started by tox, which hands on only those variables that it is told of.
    """

    runner: Runner
    required: bool
    through_tox: bool = False

    def can_record(self, test_id: str) -> bool:
        """Whether a required id can be a test's at all: official lists hold scraps of pytest's output as well."""
        return self.runner != "pytest" or "::" in test_id


def watch_of(command: str) -> Watch | None:
    """Which runner a test command starts, as far as its words tell; None for one that has no recorder."""
    words = shell_words(command)
    runner = _runner(words)
    if runner is None:
        by_tox = "tox" in (PurePosixPath(word).name for word in words)
        return Watch("pytest", required=False, through_tox=True) if by_tox else None
    hidden = not _SHIELDS_PYTHON.isdisjoint(words) or ("env", "-i") in pairwise(words)
    return Watch(runner, required=not hidden and not any(word.startswith("PYTHONPATH=") for word in words))


def _runner(words: list[str]) -> Runner | None:
    names = {PurePosixPath(word).name for word in words}
    if names & {"pytest", "py.test"}:
        return "pytest"
    if ("-m", "unittest") in pairwise(words) or names & {"runtests.py", "manage.py", "django-admin"}:
        return "unittest"
    if any(word.endswith("bin/test") or "sympy.test(" in word for word in words):
        return "sympy"
    return None


@dataclass(frozen=True)
class Witness:
    """The recorder in one box."""

    watch: Watch
    folder: str

    @property
    def shell_lines(self) -> str:
        """What the shell that runs the tests must do first."""
        records = f"{self.folder}/records"
        return (
            f": >|{records}\nexport {ORDER}={self.watch.runner}:{records}:${{PYTHONPATH+set}}"
            f' PYTHONPATH={self.folder}"${{PYTHONPATH:+:$PYTHONPATH}}"\n'
            + (_THROUGH_TOX if self.watch.through_tox else "")
        )


async def install(git: BoxGit, command: str) -> Witness | None:
    """Put the recorder into the box, if ``command`` has one; raises what the sandbox raises."""
    watch = watch_of(command)
    if watch is None:
        return None
    path = await git.write("witness/sitecustomize.py", _source())
    return Witness(watch, str(PurePosixPath(path).parent))


@cache
def _source() -> bytes:
    return files("swe_sdk.grading.boxside").joinpath("witness.py").read_bytes()


async def read(git: BoxGit, witness: Witness) -> list[Record]:
    """What was recorded; nothing where the file is gone, is no file, or cannot be a record of tests.

    Raises ``SandboxLost``.
    """
    path, limit = f"{witness.folder}/records", MAX_RECORDS_BYTES
    command = ["sh", "-c", f"[ -f {path} ] && [ ! -L {path} ] && head -c {limit + 1} {path}"]
    result = await git.box.exec(command, cwd="/", timeout_s=_READ_TIMEOUT_S, output_bytes=2 * limit)
    require_alive(result)
    if not result.ok or len(result.stdout_bytes) > limit:
        return []
    return list(_parsed(result.stdout_bytes))


def _parsed(data: bytes) -> Iterator[Record]:
    """The lines that are records; one that the end of the process cut in half is none."""
    for line in data.split(b"\n")[:-1]:
        status, _, name = line.decode("ascii", "replace").partition(" ")
        try:
            record = Record(status, bytes.fromhex(name).decode("utf-8", "replace"))
        except ValueError:
            continue
        if status in _PYTEST_ORDER:
            yield record


def as_log(runner: Runner, records: list[Record]) -> str:
    """The records as the runner would print them, for the parser of its log: ids then get the same form."""
    return "".join(_LINES[runner](records))


_PYTEST_ORDER = ("SKIPPED", "PASSED", "XFAIL", "XPASS", "ERROR", "FAILED")
"""Every status, as in a summary but for skips: there they bear no name, so that they must not outdo one that does."""
_UNITTEST_WORDS = {
    "PASSED": "ok",
    "ERROR": "ERROR",
    "FAILED": "FAIL",
    "SKIPPED": "skipped ''",
    "XFAIL": "expected failure",
}
_SYMPY_MARKS = {"PASSED": "ok", "FAILED": "F", "ERROR": "E", "SKIPPED": "s", "XFAIL": "f", "XPASS": "X"}


def _pytest_lines(records: list[Record]) -> Iterator[str]:
    for status in _PYTEST_ORDER:
        yield from (f"{status} {record.name}\n" for record in records if record.status == status)


def _unittest_lines(records: list[Record]) -> Iterator[str]:
    for status, name in records:
        if status in _UNITTEST_WORDS:
            yield f"{name} ... {_UNITTEST_WORDS[status]}\n"


def _sympy_lines(records: list[Record]) -> Iterator[str]:
    for status, name in records:
        if status in _SYMPY_MARKS:
            yield f"{name} {_SYMPY_MARKS[status]}\n"


_LINES = {"pytest": _pytest_lines, "unittest": _unittest_lines, "sympy": _sympy_lines}
