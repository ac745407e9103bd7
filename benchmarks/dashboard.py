"""How long viewers of the dashboard wait, measured in their browser: ``python -m benchmarks.dashboard [--store DIR]``.

A store of 100,000 rollouts in 20 runs, one of which has a log of 200 MB; a real server; a real Chromium without a
screen. Paint is the browser's own *first contentful paint* of a page whose rows are in it. Everything else is from the
press of a key or a click until the browser has drawn the new rows.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.made_up_store import write_store
from swe_sdk.store.filters import RolloutFilter
from swe_sdk.store.index import open_index

_ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
_HUGE_BYTES = 200_000_000
_VIEWERS = 5
_TIMES = 7
_WORD = "this line is in the log once"


class Measured(NamedTuple):
    """Seconds (or MiB) of one thing, and what was promised."""

    what: str
    values: list[float]
    limit: float
    unit: str = "s"
    digits: int = 2

    def __str__(self) -> str:
        middle, worst = statistics.median(self.values), max(self.values)
        kept = "yes" if middle <= self.limit else "NO"
        numbers = (f"{value:.{self.digits}f} {self.unit}" for value in (middle, worst))
        return f"| {self.what} | {' | '.join(numbers)} | {self.limit:g} {self.unit} | {kept} |"


def main() -> int:
    """Measure, and print a table; 1 where something took longer than was promised."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dashboard", description=__doc__)
    parser.add_argument("--store", type=Path, help="a store made by benchmarks.made_up_store (default: a new one)")
    given = parser.parse_args().store
    with tempfile.TemporaryDirectory() as temporary:
        root = given or Path(temporary, "runs")
        if given is None:
            write_store(root, huge_log_bytes=_HUGE_BYTES)
        run, rollout = _huge(root)
        with _server(root) as (url, process), _chromium() as browser:
            found = list(_measure(browser, url, process, run, rollout))
    sys.stdout.write("| what | median | worst | promised | kept |\n|---|---|---|---|---|\n")
    sys.stdout.writelines(f"{each}\n" for each in found)
    return int(any(statistics.median(each.values) > each.limit for each in found))


def _huge(root: Path) -> tuple[str, str]:
    """The rollout that has the huge log."""
    with open_index(root) as index:
        for run in index.runs():
            chosen = RolloutFilter(run=(run.run,), instance_id=("django__django-10000",))
            for row in index.rollouts(chosen, limit=20).rows:
                if any(each.name == "huge.log" for each in index.artifacts(row.rollout_id, run=run.run)):
                    return row.run, row.rollout_id
    raise SystemExit("no rollout of this store has a huge.log")


@contextmanager
def _server(root: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "swe_sdk", "dashboard", str(root), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().rpartition(" ")[2].strip(), process
        process.terminate()


@contextmanager
def _chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=_ARGS)
        yield browser
        browser.close()


def _measure(browser: Browser, url: str, process: subprocess.Popen[str], run: str, rollout: str) -> Iterator[Measured]:
    for view in ("runs", "rollouts", "masks", "budgets", "checkpoints", "retention"):
        values = [_paint(browser, f"{url}?view={view}") for _time in range(_TIMES)]
        yield Measured(f"first paint of {view}, a new browser", values, 1.5)
    page = _opened(browser, f"{url}?view=rollouts")
    presses: list[tuple[str, Callable[[int], Callable[[], None]]]] = [
        ("next page of rollouts", lambda _n: lambda: page.keyboard.press("]")),
        ("sort", lambda n: page.locator("th a.sort").nth(n % 3).click),
        ("filter by status", lambda n: _check(page, n)),
        ("page 1,500", lambda n: lambda: _go(page, f"?view=rollouts&page={1500 + n}")),
        ("text, while it is typed", lambda n: lambda: page.get_by_label("search").fill(f"django-1{n:04}"[:9])),
        ("open a rollout", lambda n: lambda: _open_rollout(page, n)),
    ]
    for what, press in presses:
        _go(page, "?view=rollouts")
        _await(page)
        yield Measured(what, [_press(page, press(n)) for n in range(_TIMES)], 0.3)
    yield from _of_kept(page, run)
    yield from _of_log(browser, url, run, rollout)
    pages = [_opened(browser, f"{url}?view={view}") for view in ("runs", "rollouts", "masks", "budgets", "retention")]
    for page in pages:
        _press(page, lambda page=page: _go(page, "?view=rollouts&page=2"))  # type: ignore[misc]
    yield Measured(f"memory of the server, {_VIEWERS} viewers", [_resident_mib(process.pid)], 500, "MiB", 0)


def _of_kept(page: Page, run: str) -> Iterator[Measured]:
    """Masks, budgets, checkpoints and retention, over all runs or of one."""
    kinds = page.locator("table[aria-label='masks by kind'] tbody tr")
    heads = page.locator("table[aria-label='budgets of rollouts'] th a.sort")
    presses: list[tuple[str, str, Callable[[int], Callable[[], None]]]] = [
        ("choose a kind of mask", "masks", lambda n: kinds.nth(1 + n % 5).click),
        ("next page of masks", "masks", lambda _n: lambda: page.keyboard.press("]")),
        ("sort budgets", "budgets", lambda n: heads.nth(n % 4).click),
        ("budgets, a text", "budgets", lambda n: lambda: _go(page, f"?view=budgets&q=django-1{n}")),
        ("checkpoints of a run", "checkpoints", lambda n: lambda: _go(page, f"?view=checkpoints&run={run}&part={n}")),
        (
            "snapshots of a run",
            "retention",
            lambda n: lambda: _go(page, f"?view=retention&run={run}&show=all&page={n + 1}"),
        ),
    ]
    for what, view, press in presses:
        _go(page, f"?view={view}")
        _await(page)
        yield Measured(what, [_press(page, press(n)) for n in range(_TIMES)], 0.3)


def _of_log(browser: Browser, url: str, run: str, rollout: str) -> Iterator[Measured]:
    at = f"?view=rollout&run={run}&rollout={rollout}&tab=files&file=huge.log"
    page = _opened(browser, f"{url}?view=rollout&run={run}&rollout={rollout}")
    opened, searched, jumped = [], [], []
    for n in range(_TIMES):
        anew = f"{at}&x={n}"  # else the page that was made for the first time would be sent again
        opened.append(_press(page, lambda anew=anew: _go(page, anew)))  # type: ignore[misc]
        jumped.append(_press(page, lambda n=n: _go(page, f"{at}&line={1_500_000 + n * 1000}")))  # type: ignore[misc]
        word = _WORD if n % 2 else _WORD.upper()
        searched.append(_press(page, lambda to=f"{anew}&find={word}": _go(page, to)))  # type: ignore[misc]
        assert page.locator(".text .here mark").count() == 1
    yield Measured("open a log of 200 MB", opened, 1.0)
    yield Measured("jump to a line in it", jumped, 1.0)
    yield Measured("search through 70 % of it", searched, 2.0)


# -- the browser -----------------------------------------------------------------------------------------------------


def _opened(browser: Browser, url: str) -> Page:
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.goto(url)
    page.wait_for_selector("body[data-ready]", state="attached")
    return page


def _paint(browser: Browser, url: str) -> float:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector("tbody tr td a")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    context.close()
    return float(paint) / 1000


def _press(page: Page, press: Callable[[], None]) -> float:
    """Seconds from a press until what it asked for is drawn, as the page's own clock has it."""
    page.evaluate(
        """() => { window.took = new Promise((done) => {
          let start = 0, asked = false;
          const began = (event) => { start = start || event.timeStamp; };
          for (const kind of ['pointerdown', 'keydown', 'input', 'click']) {
            document.addEventListener(kind, began, {capture: true, once: true});
          }
          new MutationObserver(() => {
            if ('busy' in document.body.dataset) asked = true;
            else if (asked) requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
          }).observe(document.body, {attributes: true, attributeFilter: ['data-busy']});
        }); }"""
    )
    press()
    took = page.evaluate("window.took")
    return float(took) / 1000


def _await(page: Page) -> None:
    page.wait_for_function("() => !('busy' in document.body.dataset)")


def _go(page: Page, query: str) -> None:
    """Follow a link."""
    page.evaluate(
        "query => { const a = document.createElement('a'); a.setAttribute('href', query); document.body.append(a);"
        " a.click(); a.remove(); }",
        query,
    )


def _check(page: Page, n: int) -> Callable[[], None]:
    menu = page.locator("details.menu", has_text="status").first
    if menu.get_attribute("open") is None:
        menu.locator("summary").click()
    return menu.locator("label").nth(n % 4).click


def _open_rollout(page: Page, n: int) -> None:
    if "view=rollout&" in page.url:
        _go(page, f"?view=rollouts&page={n + 2}")
    else:
        page.locator("tbody tr td a").nth(n).click()


def _resident_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    kib = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
    return int(kib) / 1024


if __name__ == "__main__":
    sys.exit(main())
