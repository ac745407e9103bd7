"""A harness is installed once, by one at a time, and whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from swe_sdk.agents.harnesses import ensure_harness, find_harness, harness_status, homes, need_harness
from swe_sdk.errors import HarnessUnavailable, UnknownAgent


@dataclass
class Slow:
    """A harness of one file, which takes a moment."""

    name: str = "slow"
    version: str = "1"
    made: list[Path] = field(default_factory=list)
    fails: Exception | None = None

    def key(self) -> str:
        return "0123456789abcdef0123"

    def make(self, directory: Path) -> None:
        self.made.append(directory)
        (directory / "file").write_text("half")
        time.sleep(0.1)
        if self.fails is not None:
            raise self.fails
        (directory / "file").write_text("whole")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SWE_SDK_HARNESSES", str(tmp_path / "homes"))
    return tmp_path / "homes"


@pytest.fixture
def slow(home: Path, monkeypatch: pytest.MonkeyPatch) -> Slow:
    maker = Slow()
    monkeypatch.setattr(homes, "HARNESSES", {"slow": maker})
    return maker


def test_many_threads_install_it_once(slow: Slow, home: Path) -> None:
    found: list[Path] = []
    said: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(ensure_harness("slow", on_progress=said.append))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(slow.made) == 1
    assert set(found) == {home / "slow-1-0123456789abcdef"}
    assert said == ["installing slow 1"]
    assert (found[0] / "file").read_text() == "whole"
    assert need_harness("slow") == find_harness("slow") == found[0]
    assert sorted(path.name for path in home.iterdir()) == [".slow.lock", found[0].name]


@pytest.mark.parametrize(
    ("raised", "says"), [(HarnessUnavailable("slow", "no index"), "no index"), (OSError(28, "no space"), "no space")]
)
def test_a_failure_leaves_nothing(slow: Slow, home: Path, raised: Exception, says: str) -> None:
    slow.fails = raised
    with pytest.raises(HarnessUnavailable, match=says):
        ensure_harness("slow")
    assert find_harness("slow") is None
    assert [path.name for path in home.iterdir()] == [".slow.lock"]
    with pytest.raises(HarnessUnavailable, match="swe-sdk agents install slow"):
        need_harness("slow")
    slow.fails = None
    assert (ensure_harness("slow") / "file").read_text() == "whole"


def test_others_may_read_it_whatever_the_umask(slow: Slow) -> None:
    before = os.umask(0o077)
    try:
        path = ensure_harness("slow")
    finally:
        os.umask(before)
    assert (path.stat().st_mode & 0o777, (path / "file").stat().st_mode & 0o777) == (0o755, 0o644)


def test_status_says_what_to_do(slow: Slow) -> None:
    (status,) = harness_status()
    assert (status.is_ready, status.reason) == (False, "not installed yet")
    assert status.remedy == "swe-sdk agents install slow"
    path = ensure_harness("slow")
    (status,) = harness_status()
    assert (status.is_ready, status.path, status.reason) == (True, str(path), "")


def test_what_nobody_uses_goes(slow: Slow, home: Path) -> None:
    old, fresh, half_made = home / "old-1-abc", home / "fresh-1-abc", home / ".part-123"
    for path, days in ((old, 70), (fresh, 3), (half_made, 2)):
        path.mkdir(parents=True)
        os.utime(path, (time.time() - days * 86400,) * 2)
    ensure_harness("slow")
    assert (old.exists(), fresh.exists(), half_made.exists()) == (False, True, False)


def test_an_unknown_name_is_a_typed_error(slow: Slow) -> None:
    with pytest.raises(UnknownAgent, match="slow"):
        ensure_harness("slo")


def test_a_killed_installer_leaves_no_lock_behind(home: Path) -> None:
    """Whoever comes next does not wait for the dead."""
    code = """
import os, sys
from tests.agents.harnesses.test_harness_homes import Slow
from swe_sdk.agents.harnesses import homes
class Dies(Slow):
    def make(self, directory):
        (directory / "file").write_text("half")
        os.kill(os.getpid(), 9)
homes.HARNESSES = {"slow": Dies()}
homes.ensure_harness("slow")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], check=False, timeout=60)
    assert done.returncode == -9
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(homes, "HARNESSES", {"slow": Slow()})
        assert (ensure_harness("slow") / "file").read_text() == "whole"
