"""A store that is half there: lines that cannot be read, files that are gone, places that never were."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from benchmarks.made_up_store import write_store
from swe_sdk.store.filters import RolloutFilter
from swe_sdk.store.index import open_index
from swe_sdk.store.rows import RolloutRow
from tests.dashboard.conftest import Served

Opened = Callable[..., Page]


@pytest.fixture
def damaged(tmp_path: Path, serve_runs: Callable[..., Served]) -> tuple[Served, RolloutRow]:
    root = tmp_path / "runs"
    write_store(root, runs=4, rollouts=120)
    with open_index(root) as index:
        row = index.rollouts(RolloutFilter(status=("unresolved",)), sort="steps", descending=True, limit=1).rows[0]
    return serve_runs(root), row


def _journal(root: Path, run: str) -> Path:
    return next((root / run / "events").glob("*.jsonl"))


def test_lines_that_cannot_be_read_are_told_and_left_out(damaged: tuple[Served, RolloutRow], open_page: Opened) -> None:
    served, row = damaged
    page = open_page(served.at("view=rollouts"))
    total = page.locator(".pager").inner_text()
    other = served.root / row.run / "events" / "other-1-1.jsonl"
    other.write_bytes(
        b'{"v":1,"n":1,"t":1.0,"event":{"kind":"nonsense"}}\nnot even json\n{"v":99,"n":3,"t":1,"event":{}}\n{"v"'
    )
    expect(page.locator(".notice.warn")).to_contain_text("could not be read", timeout=5000)
    expect(page.locator(".notice.warn")).to_contain_text("newer swe_sdk")
    assert page.locator(".pager").inner_text() == total


def test_files_that_are_gone_are_told(damaged: tuple[Served, RolloutRow], open_page: Opened) -> None:
    served, row = damaged
    shutil.rmtree(served.root / row.run / "rollouts" / row.rollout_id)
    at = f"view=rollout&run={row.run}&rollout={row.rollout_id}"
    page = open_page(served.at(f"{at}&tab=files"))
    expect(page.locator(".problem")).to_contain_text("cannot be read")
    page.goto(served.at(f"{at}&tab=patch"))
    expect(page.locator(".problem")).to_contain_text("cannot be read")
    page.goto(served.at(f"{at}&tab=tests"))
    expect(page.locator(".verdict").first).to_be_visible()
    page.goto(served.at(f"{at}&tab=files&file=no-such.log"))
    expect(page.locator(".problem")).to_contain_text("no such file")


def test_a_run_that_is_deleted_is_gone_from_the_page(damaged: tuple[Served, RolloutRow], open_page: Opened) -> None:
    served, row = damaged
    page = open_page(served.at())
    rows = page.locator("table[aria-label=runs] tbody tr")
    expect(rows).to_have_count(4)
    detail = open_page(served.at(f"view=rollout&run={row.run}&rollout={row.rollout_id}"))
    shutil.rmtree(served.root / row.run)
    expect(rows).to_have_count(3, timeout=8000)
    expect(detail.locator(".problem")).to_contain_text(row.run, timeout=8000)


def test_a_journal_that_is_gone_leaves_what_the_index_knows(
    damaged: tuple[Served, RolloutRow], open_page: Opened
) -> None:
    served, row = damaged
    at = f"view=rollout&run={row.run}&rollout={row.rollout_id}"
    page = open_page(served.at(f"{at}&tab=steps"))
    path = _journal(served.root, row.run)
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"summary"', b'"Summary"'))  # of the same length: the lines say nothing now
    page.goto(served.at(f"{at}&tab=steps&page=1&x=1"))
    expect(page.locator(".steps li").first).to_contain_text("not there any more")
    assert page.locator(".problem").count() == 0


def test_an_empty_directory_says_how_to_begin(
    tmp_path: Path, serve_runs: Callable[..., Served], open_page: Opened
) -> None:
    served = serve_runs(tmp_path)
    page = open_page(served.at())
    expect(page.locator(".empty")).to_contain_text("No runs yet")
    expect(page.locator(".empty code")).to_contain_text("swe-sdk run")
    write_store(tmp_path, runs=4, rollouts=8)
    expect(page.locator("table[aria-label=runs] tbody tr")).to_have_count(4, timeout=8000)
