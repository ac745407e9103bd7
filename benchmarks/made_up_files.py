"""Files of made-up rollouts: patches, transcripts, logs of tests that say what the outcome says, and a huge one."""

from __future__ import annotations

import random
from collections.abc import Iterator

from benchmarks.made_up_events import tests_of
from benchmarks.made_up_lives import Life
from swe_sdk.store.writer import RunWriter

NEEDLE = b"ValueError: this line is in the log once"
_BLOCK_LINES = 2000


def write_files(writer: RunWriter, life: Life) -> None:
    """What an attempt that was graded leaves."""
    attempt = life.tries[-1].attempt
    writer.save("patch.diff", _patch(life), rollout_id=life.rollout_id, attempt=attempt, role="patch")
    writer.save("agent.log", b"".join(_talk(life)), rollout_id=life.rollout_id, attempt=attempt, role="transcript")
    folder = writer.folder(life.rollout_id, attempt) / "verify-1"
    folder.mkdir(exist_ok=True)
    (folder / "test.log").write_bytes(b"".join(_test_log(life)))
    writer.adopt(folder / "test.log", name="verify-1/test.log", rollout_id=life.rollout_id, attempt=attempt, role="log")


def write_huge_log(writer: RunWriter, life: Life, size: int) -> None:
    """A log of ``size`` bytes; :data:`NEEDLE` is in it once, at seven tenths."""
    attempt = life.tries[-1].attempt
    with writer.artifact("huge.log", rollout_id=life.rollout_id, attempt=attempt, role="log") as log:
        written = number = 0
        is_there = False
        while written < size:
            lines = (
                b"2026-01-01 12:00:00 INFO test_%07d ... ok, and some more words that fill the line up to its end\n"
                % (number + n)
                for n in range(_BLOCK_LINES)
            )
            block = b"".join(lines)
            if not is_there and written >= size * 7 // 10:
                block, is_there = block + NEEDLE + b"\n", True
            log.write(block[: size - written] if size - written < len(block) else block)
            written, number = written + len(block), number + _BLOCK_LINES


def _patch(life: Life) -> bytes:
    module = life.repo.rpartition("/")[2]
    chance = random.Random(f"patch {life.rollout_id}")
    files = []
    for n in range(chance.choice((1, 1, 2, 3))):
        path, line = f"src/{module}/part_{n}.py", chance.randrange(10, 400)
        files.append(
            f"diff --git a/{path} b/{path}\nindex 3f2a1bc..9d0e4f7 100644\n--- a/{path}\n+++ b/{path}\n"
            f"@@ -{line},7 +{line},8 @@ def clean(self, value):\n     if value is None:\n         return self.default\n"
            "-    value = self.convert(value)\n-    return value\n+    if not self.accepts(value):\n"
            f'+        raise ValueError(f"not a value of {module}: {{value!r}}")\n+    return self.convert(value)\n'
            " \n     def accepts(self, value):\n"
        )
    return "".join(files).encode()


def _talk(life: Life) -> Iterator[bytes]:
    for n in range(1, 30):
        yield f"--- step {n}\nI look at the code that {life.instance_id} is about.\n$ grep -rn clean src\n".encode()


def _test_log(life: Life) -> Iterator[bytes]:
    report = tests_of(life)
    every = {**report.fail_to_pass, **report.pass_to_pass}
    yield f"======== test session starts ========\nrootdir: /testbed\ncollected {len(every) + 400} items\n".encode()
    for n in range(400):
        yield f"tests/test_other.py::test_{n} PASSED\n".encode()
    for test, status in every.items():
        if status != "MISSING":
            yield f"{test} {status}\n".encode()
    yield b"\n================= FAILURES =================\n"
    for test, status in every.items():
        if status in ("FAILED", "ERROR"):
            name = test.rpartition("::")[2]
            yield f"____ {name} ____\n\n    def {name.partition('[')[0]}():\n>       assert clean('') == 42\n".encode()
            yield b"E       AssertionError: assert None == 42\n\ntests/test_it.py:41: AssertionError\n"
            yield f"{status} {test} - AssertionError: assert None == 42\n".encode()
    failed = sum(status in ("FAILED", "ERROR") for status in every.values())
    yield f"==== {failed} failed, {len(every) + 400 - failed} passed in 4.31s ====\n".encode()
