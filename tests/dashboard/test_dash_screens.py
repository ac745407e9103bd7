"""Every view in light and dark, at 1280x800 and wide: nothing overflows, and pictures are kept for who looks at them.

They are written to ``$SWE_SDK_SCREENSHOTS``, where that is set.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from swe_sdk.store.filters import RolloutFilter
from swe_sdk.store.index import open_index
from tests.dashboard.conftest import Served

Opened = Callable[..., Page]
_FOLDER = os.environ.get("SWE_SDK_SCREENSHOTS")
_SHOWN = {
    "runs": "view=runs",
    "rollouts": "view=rollouts",
    "masks": "view=masks",
    "budgets": "view=budgets",
    "checkpoints": "view=checkpoints",
    "retention": "view=retention",
    "sandboxes": "view=sandboxes",
    "checkpoints-of-a-run": "view=checkpoints&run={killed}",
    "checkpoint": "view=checkpoints&run={killed}&checkpoint={kept}",
    "retention-of-a-run": "view=retention&run={stopped}",
    "masks-of-a-kind": "view=masks&mask=sandbox_lost",
    "compare": "view=compare&run={first}&run={second}",
    "rollout": "view=rollout&{unresolved}",
    "rollout-masked": "view=rollout&{masked}",
    "rollout-tests": "view=rollout&{unresolved}&tab=tests",
    "rollout-steps": "view=rollout&{unresolved}&tab=steps",
    "rollout-patch": "view=rollout&{unresolved}&tab=patch",
    "rollout-log": "view=rollout&{unresolved}&tab=files&find=FAILED",
}


@pytest.fixture(scope="module")
def places(served: Served) -> dict[str, str]:
    with open_index(served.root) as index:
        runs = sorted(run.run for run in index.runs())
        found = {"first": runs[0], "second": runs[1], "stopped": runs[-3], "killed": runs[-4]}
        found["kept"] = [each.checkpoint_id for each in index.checkpoints(runs[-4]) if each.state == "kept"][-1]
        for status in ("unresolved", "masked"):
            chosen = RolloutFilter(status=(status,))  # type: ignore[arg-type]
            row = index.rollouts(chosen, sort="steps", descending=True, limit=1).rows[0]
            found[status] = f"run={row.run}&rollout={row.rollout_id}"
    return found


@pytest.mark.parametrize("width", [1280, 1920])
def test_every_view_fits(served: Served, open_page: Opened, places: dict[str, str], width: int) -> None:
    page = open_page(served.at(), width=width)
    for name, query in _SHOWN.items():
        for theme in ("light", "dark") if width == 1280 or _FOLDER else ("light",):
            page.goto(served.at(f"{query.format_map(places)}&theme={theme}"))
            page.wait_for_selector("body[data-ready]", state="attached")
            expect(page.locator(".empty", has_text="Looking")).to_have_count(0, timeout=60_000)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (name, theme)
            assert page.evaluate("document.documentElement.dataset.theme") == theme
            assert _faint(page) == [], (name, theme)
            if _FOLDER:
                path = Path(_FOLDER, f"{name}-{theme}-{width}.png")
                page.screenshot(path=str(path), full_page=True)


def _faint(page: Page) -> list[str]:
    """Words of pills that are hard to tell from what they are on: less than 4.5 to 1 against the card."""
    return page.evaluate(
        """() => {
          const part = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
          const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number);
            return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b); };
          const page = light(getComputedStyle(document.querySelector('header.top')).backgroundColor);
          return [...document.querySelectorAll('#main .pill')].filter((pill) => {
            const ink = light(getComputedStyle(pill).color);
            return (Math.max(ink, page) + 0.05) / (Math.min(ink, page) + 0.05) < 4.3;
          }).map((pill) => pill.outerHTML).slice(0, 3);
        }"""
    )
