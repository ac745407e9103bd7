"""A real run is watched from its start to its end by two browsers, and neither ever shows what the store never said.

Two hundred rollouts are watched with ``SWE_SDK_WATCHED_ROLLOUTS=200``; forty otherwise.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.store.filters import RolloutFilter
from swe_sdk.store.index import open_index
from tests.dashboard.conftest import Served
from tests.leaks import memory_folder

_ROLLOUTS = int(os.environ.get("SWE_SDK_WATCHED_ROLLOUTS", "40"))
_EVERY_S = 0.5
_LAG_S = float(os.environ.get("SWE_SDK_WATCHED_LAG_S", "5"))
"""How old what a page shows may be: two seconds are promised, to a machine that does nothing else."""
_UNDER_WAY = ("running", "parked", "retrying")
Shown = dict[str, int]


@pytest.fixture
def place() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="swe_sdk-watched-", dir=memory_folder()))
    (folder / "runs").mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.timeout(900)
def test_two_browsers_show_what_the_store_says_from_start_to_end(
    place: Path, serve_once: Callable[..., Served], open_page: Callable[..., Page], local_provider: LocalProvider
) -> None:
    served = serve_once(place / "runs")
    watched = [open_page(served.at("view=rollouts")), open_page(served.at("view=rollouts"), width=900)]
    for page in watched:
        expect(page.locator(".empty")).to_be_visible()
    samples: list[tuple[float, Shown]] = []
    command = [sys.executable, "-m", "tests.dashboard.real_run", str(place), str(_ROLLOUTS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        run.stdin.write("go\n")
        run.stdin.flush()
        while run.poll() is None:
            samples += [(time.time(), shown(page)) for page in watched]
            time.sleep(_EVERY_S)
        assert run.returncode == 0
        assert f"{_ROLLOUTS} resolved" in run.stdout.read()
    for page in watched:
        expect(page.locator(".stats > div", has_text="resolved").first).to_contain_text(str(_ROLLOUTS), timeout=10_000)
    states = list(replay(place / "runs" / "live"))
    lags = [lag_of(states, at, counts) for at, counts in samples if counts]
    assert len(lags) > 2 * 5, "it was watched"
    assert max(lags) < _LAG_S, f"behind by up to {max(lags):.1f} s"
    with open_index(place / "runs") as index:
        finished = index.count(RolloutFilter(status=("resolved",)))
        assert [shown(page)["resolved"] for page in watched] == [finished, finished] == [_ROLLOUTS] * 2
        saved = [row for row in index.checkpoints("live") if row.saved_at is not None]
    print(f"{len(lags)} samples, behind by {sorted(lags)[len(lags) // 2]:.2f} s, {max(lags):.2f} s at most")
    page = open_page(served.at("view=checkpoints&run=live"))
    expect(page.locator("table[aria-label=checkpoints] tbody tr")).to_have_count(min(25, len(saved)))
    if saved:
        expect(page.locator(".notice.info")).to_contain_text("every rollout is finished")


def shown(page: Page) -> Shown:
    """The counts of a page, as it is at this moment; nothing while it has none yet."""
    pairs = page.evaluate(
        "[...document.querySelectorAll('.stats > div')].map(d => [d.querySelector('dt').textContent,"
        " d.querySelector('dd').firstChild.textContent])"
    )
    wanted = ("resolved", "unresolved", "masked", "stopped", "under way", "queued")
    return {label: int(number.replace(",", "")) for label, number in pairs if label in wanted}


def replay(run_dir: Path) -> Iterator[tuple[float, Shown]]:
    """The counts after each event of the journals, by a reading of them that has nothing of the index."""
    lines = [json.loads(line) for file in (run_dir / "events").iterdir() for line in file.read_bytes().splitlines()]
    status: dict[str, str] = {}
    for line in sorted(lines, key=lambda line: line["t"]):
        event = line["event"]
        name = event.get("rollout_id")
        match event["kind"]:
            case "rollout_queued":
                status[name] = "queued"
            case "attempt_started" | "rollout_unparked":
                status[name] = "running"
            case "rollout_parked":
                status[name] = "parked"
            case "attempt_ended" if event["will_retry"]:
                status[name] = "retrying"
            case "rollout_ended":
                status[name] = event["status"]
        yield line["t"], _counts(Counter(status.values()))


def _counts(found: Counter[str]) -> Shown:
    words = {word: found[word] for word in ("resolved", "unresolved", "masked", "stopped", "queued")}
    return {**words, "under way": sum(found[word] for word in _UNDER_WAY)}


def lag_of(states: list[tuple[float, Shown]], at: float, counts: Shown) -> float:
    """How long before a moment the store said last what a page showed then; an error where it never did."""
    until = [then for then, _state in states[1:]] + [float("inf")]
    said = [end for (since, state), end in zip(states, until, strict=True) if state == counts and since <= at]
    assert said, f"the store never said {counts}"
    return max(0.0, at - max(said))
