"""A run that goes on, watched: counts equal the store's, nothing of a viewer is lost, and an end costs nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from swe_sdk.store.index import open_index
from tests.dashboard.conftest import Served

Opened = Callable[..., Page]
_WRITER = Path(__file__).with_name("live_writer.py")
_SHOWN_WITHIN_MS = 5000
"""Two seconds are promised; a loaded machine gets more."""


class _Run:
    """A run that goes on by a rollout each time that it is told to."""

    def __init__(self, run_dir: Path, rollouts: int) -> None:
        command = [sys.executable, str(_WRITER), str(run_dir), str(rollouts), "0", "told"]
        root = str(Path(__file__).parents[2])
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": root, "PATH": ""}
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "queued\n"

    def go_on(self, rollouts: int) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        for _rollout in range(rollouts):
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            self.process.stdout.readline()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def live(tmp_path: Path, serve_runs: Callable[..., Served]) -> Iterator[tuple[_Run, Served]]:
    run = _Run(tmp_path / "runs" / "live", 60)
    yield run, serve_runs(tmp_path / "runs")
    run.close()


def _counts(page: Page) -> dict[str, int]:
    """The large numbers of a page, by their label."""
    pairs = page.evaluate(
        "[...document.querySelectorAll('.stats > div')].map(d => [d.querySelector('dt').textContent,"
        " d.querySelector('dd').firstChild.textContent])"
    )
    return {label: int(number.replace(",", "")) for label, number in pairs if number.replace(",", "").isdigit()}


def test_two_viewers_see_every_count_of_the_store(live: tuple[_Run, Served], open_page: Opened) -> None:
    run, served = live
    runs, rollouts = open_page(served.at()), open_page(served.at("view=rollouts&sort=rollout_id"))
    with open_index(served.root) as index:
        for sample in range(5):
            run.go_on(7)
            index.refresh()
            counts = index.run().counts
            expect(rollouts.locator(".stats dd").nth(3)).to_contain_text(
                str(counts["masked"]), timeout=_SHOWN_WITHIN_MS
            )
            expect(runs.locator("table[aria-label=runs] td.num").first).to_have_text(
                f"{7 * (sample + 1)} / 60", timeout=_SHOWN_WITHIN_MS
            )
            seen = _counts(rollouts)
            for status in ("resolved", "unresolved", "masked", "queued"):
                assert seen[status] == counts.get(status, 0), status
            late = open_page(served.at("view=rollouts")) if sample == 2 else None
            assert late is None or _counts(late) == seen, "who joins late sees the same"


def test_focus_scroll_selection_filters_and_menus_stay(live: tuple[_Run, Served], open_page: Opened) -> None:
    run, served = live
    page = open_page(served.at("view=rollouts&sort=rollout_id&q=live"))
    page.locator("details.menu summary").first.click()
    page.evaluate("window.scrollTo(0, 300)")
    page.evaluate(
        "() => { const cell = document.querySelector('tbody tr:nth-child(20) a');"
        " const range = document.createRange(); range.selectNodeContents(cell);"
        " getSelection().removeAllRanges(); getSelection().addRange(range); }"
    )
    page.get_by_label("search").evaluate("node => node.focus({preventScroll: true})")
    page.keyboard.press("End")
    page.keyboard.type("_")  # typed, and not yet sent
    chosen = page.evaluate("String(getSelection())")
    at = page.evaluate("scrollY")
    run.go_on(9)
    expect(page.locator(".stats dd").nth(1)).to_have_text("3", timeout=_SHOWN_WITHIN_MS)
    assert page.evaluate("scrollY") == at
    assert page.evaluate("document.activeElement.name") == "q"
    assert page.get_by_label("search").input_value() == "live_"
    assert page.locator("details.menu[open]").count() == 1
    assert chosen in ("", page.evaluate("String(getSelection())"))


def test_a_row_that_moves_keeps_the_focus(live: tuple[_Run, Served], open_page: Opened) -> None:
    run, served = live
    page = open_page(served.at("view=rollouts&sort=-updated_at&q=live__task-1"))
    row = page.locator("tbody tr", has_text="live__task-1.0").locator("a").first
    row.focus()
    run.go_on(2)
    expect(page.locator("tbody tr").first).to_contain_text("live__task-1.0", timeout=_SHOWN_WITHIN_MS)
    assert page.evaluate("document.activeElement.textContent") == "live__task-1.0"


def test_an_idle_page_is_sent_nothing(served: Served, open_page: Opened) -> None:
    received: list[str] = []
    page = open_page("about:blank", wait=False)
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: received.append(str(frame))))
    page.goto(served.at("view=rollouts"))
    page.wait_for_selector("body[data-ready]", state="attached")
    page.wait_for_timeout(800)
    before = len(received)
    page.wait_for_timeout(3500)
    assert [frame for frame in received[before:] if "html" in frame] == []


def test_a_killed_run_is_seen_to_be_killed(live: tuple[_Run, Served], open_page: Opened) -> None:
    run, served = live
    run.go_on(3)
    page = open_page(served.at())
    row = page.locator("table[aria-label=runs] tbody tr")
    expect(row).to_contain_text("going")
    expect(page.locator(".pulse")).to_contain_text("1 live")
    run.close()
    expect(row).to_contain_text("killed", timeout=_SHOWN_WITHIN_MS)
    expect(page.locator(".pulse")).to_contain_text("no run is going")


def test_a_log_that_grows_is_followed(tmp_path: Path, serve_runs: Callable[..., Served], open_page: Opened) -> None:
    from swe_sdk.store import events as ev
    from swe_sdk.store.writer import RunWriter

    names = {"rollout_id": "a__b-1.0", "attempt": 1}
    with RunWriter(tmp_path / "runs" / "growing", sync=False) as writer:
        writer.append(ev.RunStarted(name="growing", rollouts=1))
        writer.append(ev.RolloutQueued(rollout_id="a__b-1.0", instance_id="a__b-1"))
        writer.append(ev.AttemptStarted(**names))
        with writer.artifact("agent.log", role="log", **names) as log:
            log.write(b"first\n")
            served = serve_runs(tmp_path / "runs")
            page = open_page(served.at("view=rollout&rollout=a__b-1.0&tab=files&file=agent.log&end=1"))
            expect(page.locator(".text.log .l")).to_have_count(1)
            log.write(b"second\n")
            expect(page.locator(".text.log .l")).to_have_count(2, timeout=_SHOWN_WITHIN_MS)


def test_a_server_that_is_started_again_is_found_again(
    tmp_path: Path, serve_runs: Callable[..., Served], open_page: Opened
) -> None:
    _Run(tmp_path / "runs" / "live", 2).close()
    served = serve_runs(tmp_path / "runs")
    page = open_page("about:blank", wait=False)
    page.clock.install()  # half a minute passes at once
    page.goto(served.at("view=rollouts&sort=steps"))
    page.wait_for_selector("body[data-ready]", state="attached")
    served.process.terminate()
    served.process.wait(30)
    page.clock.fast_forward(40_000)
    page.wait_for_selector("body[data-lost]", state="attached")
    again = serve_runs(tmp_path / "runs", "--port", served.url.rpartition(":")[2].rstrip("/"))
    assert again.url == served.url
    page.evaluate("document.body.dataset.before = 'yes'")
    page.clock.fast_forward(20_000)
    page.wait_for_selector("body[data-ready]:not([data-before])", state="attached")
    assert page.url == served.at("view=rollouts&sort=steps"), "what it showed is in its address"
    open_page.errors.clear()  # type: ignore[attr-defined]  # the browser says that the connection was lost
