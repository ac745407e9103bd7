"""Put each defect of tests/checkpoint/mutants.py back, and see a test fail: ``python scripts/checkpoint_mutants.py``.

The package is copied, changed and tested in a temporary folder. Arguments select mutants by a part of their name. Exits
with 1 if a defect was not found.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.checkpoint.mutants import MUTANTS, Mutant  # noqa: E402

_SETTINGS = {"SWE_SDK_PROTOCOL_STEPS": "20000", "SWE_SDK_CHECKPOINT_RUNS": "25", "PYTHONDONTWRITEBYTECODE": "1"}


def main() -> int:
    """Try them one after the other."""
    chosen = [one for one in MUTANTS if all(word in one.name for word in sys.argv[1:])]
    with tempfile.TemporaryDirectory(prefix="checkpoint-mutants-") as name:
        place = Path(name)
        for part in ("swe_sdk", "tests", "docs"):
            shutil.copytree(ROOT / part, place / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", place)
        survivors = [one.name for one in chosen if not _is_found(place, one)]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} defects were found")
    for survivor in survivors:
        print(f"NOT FOUND: {survivor}")
    return 1 if survivors else 0


def _is_found(place: Path, mutant: Mutant) -> bool:
    path = place / "swe_sdk" / "checkpoint" / mutant.file
    source = path.read_text()
    if source.count(mutant.before) != 1:
        raise SystemExit(f"{mutant.name}: its line stands {source.count(mutant.before)} times in {mutant.file}")
    started = time.monotonic()
    path.write_text(source.replace(mutant.before, mutant.after))
    try:
        failed = _tests_fail(place, mutant.test)
    finally:
        path.write_text(source)
    print(f"{'found' if failed else 'NOT FOUND'} in {time.monotonic() - started:.1f} s: {mutant.name}", flush=True)
    return failed


def _tests_fail(place: Path, test: str) -> bool:
    file, _, name = test.partition("::")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"tests/checkpoint/{file}"]
    command += ["--timeout", "120", *(["-k", name] if name else [])]
    done = subprocess.run(command, cwd=place, env={**os.environ, **_SETTINGS}, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{test} could not be run:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.returncode == 1


if __name__ == "__main__":
    sys.exit(main())
