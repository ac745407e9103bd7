"""A task small enough to grade in a tenth of a second: a text file to fix, and a shell script that tests it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from swe_sdk.model.environment import DirectorySource, SourceEnvironment
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import GradingSpec, Task

SRC = "".join(f"line {n}\n" for n in range(1, 6)) + "answer = 41\n" + "".join(f"line {n}\n" for n in range(7, 12))
CHECK = 'echo "PASSED check::runs"\n'
FILES = {"src.txt": SRC, "tests/check.sh": CHECK, ".gitignore": "*.bin\nbuild/\n"}
NEW_CHECK = CHECK + 'grep -q "answer = 42" src.txt && echo "PASSED check::answer" || echo "FAILED check::answer"\n'


def diff(before: dict[str, str | bytes | None], after: dict[str, str | bytes | None]) -> bytes:
    """The git diff between two trees, as git itself writes it; None = no such file."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        _git(root, "init", "-q")
        write_files(root, before)
        _git(root, "add", "-Af")
        _git(root, "commit", "-q", "--allow-empty", "-m", "before")
        write_files(root, after)
        _git(root, "add", "-Af")
        return _git(root, "diff", "--cached", "--binary", "--full-index", "HEAD")


def change(path: str, old: str, new: str) -> bytes:
    """A diff of one file of :data:`FILES`."""
    return diff({path: FILES[path]}, {path: FILES[path].replace(old, new)})


def write_files(root: Path, files: dict[str, str | bytes | None]) -> None:
    """Write the files of a tree; None removes one."""
    for name, content in files.items():
        path = root / name
        if content is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def _git(root: Path, *args: str) -> bytes:
    who = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "core.autocrlf=false"]
    return subprocess.run(["git", *who, *args], cwd=root, check=True, capture_output=True).stdout


GOLD = change("src.txt", "answer = 41", "answer = 42")
WRONG = change("src.txt", "answer = 41", "answer = 43")
TEST_PATCH = diff({"tests/check.sh": CHECK}, {"tests/check.sh": NEW_CHECK, "tests/extra.sh": "true\n"})
UNAPPLIABLE = change("src.txt", "answer = 41", "answer = 42").replace(b"answer = 41", b"something else")


def make_repo(root: Path, files: dict[str, str] | None = None) -> Path:
    """The repository's files in a directory of their own."""
    write_files(root, {**FILES, **(files or {})})
    return root


def make_task(root: Path, *, files: dict[str, str] | None = None, **grading: Any) -> Task:
    """The task, over a repository that is written to ``root``; ``grading`` changes its private half."""
    make_repo(root, files)
    spec: dict[str, Any] = {
        "test_patch": Patch.of(TEST_PATCH),
        "fail_to_pass": ("check::answer",),
        "pass_to_pass": ("check::runs",),
        "test_command": "sh tests/check.sh",
        "parser": "parse_log_pytest",
        "gold_patch": Patch.of(GOLD),
        "wrong_patch": Patch.of(WRONG),
    }
    return Task(
        instance_id="tiny__answer-1",
        family="swe-bench",
        repo="tiny/answer",
        environment=SourceEnvironment(source=DirectorySource(path=str(root))),
        grading=GradingSpec(**{**spec, **grading}),
    )
