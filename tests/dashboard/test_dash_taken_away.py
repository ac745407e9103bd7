"""CSV, PNG, files, and what is copied."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from swe_sdk.dashboard.downloads import _cell
from swe_sdk.store.filters import RolloutFilter
from swe_sdk.store.index import open_index
from swe_sdk.store.rows import RolloutRow
from tests.dashboard.browsing import settled
from tests.dashboard.conftest import Served

Opened = Callable[..., Page]
_PNG = b"\x89PNG\r\n"


@pytest.fixture(scope="module")
def whole(served: Served) -> RolloutRow:
    """A rollout that has files."""
    with open_index(served.root) as index:
        return index.rollouts(RolloutFilter(status=("resolved",)), sort="steps", descending=True, limit=1).rows[0]


def _save(page: Page, press: Callable[[], None]) -> bytes:
    with page.expect_download() as download:
        press()
    return Path(download.value.path()).read_bytes()


def test_a_list_is_taken_away_as_it_is_filtered(served: Served, open_page: Opened) -> None:
    page = open_page(served.at("view=rollouts&status=masked&sort=-spent_s"))
    data = _save(page, lambda: page.get_by_role("link", name="CSV").click())
    rows = list(csv.DictReader(io.StringIO(data.decode())))
    with open_index(served.root) as index:
        expected = index.rollouts(RolloutFilter(status=("masked",)), sort="spent_s", descending=True, limit=1000).rows
    assert [(row["run"], row["rollout_id"]) for row in rows] == [(row.run, row.rollout_id) for row in expected]
    assert [row["mask_kind"] for row in rows] == [row.mask_kind for row in expected]


def test_formulas_are_texts() -> None:
    assert [_cell(value) for value in ("=1+1", "@x", "-2", -2, "plain", None)] == [
        "'=1+1",
        "'@x",
        "'-2",
        -2,
        "plain",
        None,
    ]


def test_a_file_is_taken_away_whole(served: Served, open_page: Opened, whole: RolloutRow) -> None:
    page = open_page(served.at(f"view=rollout&run={whole.run}&rollout={whole.rollout_id}&tab=files"))
    row = page.locator("table[aria-label=files] tr", has_text="test.log")
    data = _save(page, lambda: row.get_by_role("link", name="download").click())
    with open_index(served.root) as index:
        found = index.artifacts(whole.rollout_id, run=whole.run)
        log = next(each for each in found if each.name.endswith("test.log"))
        with index.open_artifact(log) as file:
            assert data == file.read_window(0, file.size)


def test_a_file_is_never_shown_as_a_page(served: Served, open_page: Opened, whole: RolloutRow) -> None:
    page = open_page(served.at())
    base = served.at().rstrip("?")
    answer = page.request.get(f"{base}files/raw?run={whole.run}&rollout={whole.rollout_id}&attempt=1&name=agent.log")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"
    for query in ("name=../../../../etc/passwd", "name=nothing", "name=agent.log&attempt=99"):
        answer = page.request.get(f"{base}files/raw?run={whole.run}&rollout={whole.rollout_id}&{query}")
        assert answer.status == 404, query
    assert page.request.get(f"{base}export/nothing.csv").status == 404


def test_a_drawing_is_saved(served: Served, open_page: Opened, whole: RolloutRow) -> None:
    page = open_page(served.at(f"view=rollout&run={whole.run}&rollout={whole.rollout_id}"))
    data = _save(page, lambda: page.get_by_role("button", name="PNG").click())
    assert data.startswith(_PNG)
    assert len(data) > 3000


def test_what_is_copied_is_what_is_shown(served: Served, open_page: Opened, whole: RolloutRow) -> None:
    page = open_page(served.at(f"view=rollout&run={whole.run}&rollout={whole.rollout_id}"))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = page.get_by_role("button", name="copy as Python")
    button.click()
    expect(page.get_by_role("button", name="copied")).to_be_visible()
    script = page.evaluate("navigator.clipboard.readText()")
    names: dict[str, object] = {}
    exec(script.replace("print(", "found = ("), names)  # what it copies runs
    assert whole.rollout_id in str(names["found"])


def test_every_csv_of_every_view_is_one(served: Served, open_page: Opened) -> None:
    page = open_page(served.at())
    for view in ("runs", "rollouts", "masks", "budgets", "checkpoints", "retention", "sandboxes"):
        page.goto(served.at(f"view={view}"))
        settled(page)
        for href in page.evaluate("[...document.querySelectorAll('a[href^=\"export/\"]')].map(a => a.href)"):
            answer = page.request.get(href)
            assert answer.status == 200, href
            rows = list(csv.reader(io.StringIO(answer.text())))
            assert len({len(row) for row in rows}) == 1, href
