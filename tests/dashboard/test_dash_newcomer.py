"""The five questions that a newcomer has, from the first page on and by clicks alone; and what each click leads to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from benchmarks.made_up_store import MadeUp
from swe_sdk.store import events as ev
from swe_sdk.store.filters import RolloutFilter
from swe_sdk.store.index import open_index
from swe_sdk.store.rows import RolloutRow
from swe_sdk.store.writer import RunWriter
from tests.dashboard.browsing import settled
from tests.dashboard.conftest import Served

Opened = Callable[..., Page]
_BAD = ("FAILED", "ERROR")


class Newcomer:
    """Clicks, and counts."""

    def __init__(self, page: Page) -> None:
        self.page, self.clicks = page, 0

    def click(self, what: Locator) -> None:
        self.clicks += 1
        what.first.click()
        settled(self.page)

    def menu(self, name: str) -> None:
        self.click(self.page.locator("header.top").get_by_role("link", name=name, exact=True))


@pytest.fixture
def newcomer(served: Served, open_page: Opened) -> Newcomer:
    return Newcomer(open_page(served.at()))


def test_why_is_this_rollout_masked(newcomer: Newcomer) -> None:
    page = newcomer.page
    newcomer.click(page.locator("table[aria-label=runs] td a[href*='view=masks']"))
    newcomer.click(page.locator("table[aria-label='masked attempts'] tbody tr td a"))
    expect(page.locator(".why")).to_contain_text("Why it is masked")
    expect(page.locator(".why pre.evidence").first).to_be_visible()
    assert newcomer.clicks == 2


def test_which_test_failed_and_where_in_the_log(newcomer: Newcomer, whole: RolloutRow) -> None:
    page = newcomer.page
    newcomer.menu("Rollouts")
    page.get_by_label("search").fill(whole.instance_id)
    expect(page.locator("table[aria-label=rollouts] tbody td:first-child").first).to_contain_text(whole.instance_id)
    newcomer.click(page.locator(f"tr[data-key='{whole.run}/{whole.rollout_id}'] td a"))
    newcomer.click(page.get_by_role("link", name="Show it in the log"))
    bad = page.locator(".verdict").first
    assert bad.locator(".pill").first.inner_text().split()[-1] in _BAD
    test = bad.locator("code").first.inner_text()
    newcomer.click(bad.get_by_role("link", name="test.log"))
    here = page.locator(".text.log .l.here")
    expect(here).to_be_in_viewport()
    assert test.rpartition("::")[2] in here.inner_text()
    assert newcomer.clicks == 4


@pytest.fixture(scope="module")
def whole(served: Served) -> RolloutRow:
    """One with files, that has failed."""
    with open_index(served.root) as index:
        chosen = RolloutFilter(status=("unresolved",))
        rows = index.rollouts(chosen, sort="steps", descending=True, limit=600).rows
        return next(
            row
            for row in rows
            if any(each.name.endswith("test.log") for each in index.artifacts(row.rollout_id, run=row.run))
            and any(each.status in _BAD for each in index.verdicts(row.rollout_id, run=row.run))
        )


def test_which_checkpoint_can_be_restored_and_what_does_it_hold(newcomer: Newcomer) -> None:
    page = newcomer.page
    newcomer.menu("Checkpoints")
    newcomer.click(page.locator("tbody tr", has_text="killed").locator("td a"))
    answer = page.locator(".notice", has_text="Can be restored")
    expect(answer).to_contain_text("swe-sdk resume")
    newcomer.click(answer.get_by_role("link"))
    expect(page.locator("[data-key=detail]")).to_contain_text("goes on with")
    assert newcomer.clicks == 3


def test_what_is_leaking(newcomer: Newcomer, store: tuple[Path, MadeUp]) -> None:
    page = newcomer.page
    newcomer.menu("Retention")
    newcomer.click(page.locator(".notice li", has_text="leaked").get_by_role("link"))
    newcomer.click(page.locator(".tabs").get_by_role("link", name="leaked"))
    leaked = store[1].leaked
    assert leaked is not None
    expect(page.locator("[data-key=map] tbody")).to_contain_text(leaked[:20])
    expect(page.locator("[data-key=map] .pill").first).to_have_attribute(
        "title", "there, though no kept checkpoint refers to it"
    )
    assert newcomer.clicks == 3


def test_which_tasks_flipped(newcomer: Newcomer) -> None:
    page = newcomer.page
    newcomer.click(page.get_by_role("link", name="compare"))
    newcomer.click(page.get_by_role("link", name="with this"))
    expect(page.locator(".tabs a[aria-current]")).to_contain_text("flips")
    expect(page.locator(".notice")).to_contain_text("chance")
    assert newcomer.clicks == 2
    task = page.locator("table[aria-label=tasks] tbody tr td").first.inner_text()
    newcomer.click(page.locator("table[aria-label=tasks] tbody tr td a"))
    rows = page.locator("table[aria-label=rollouts] tbody tr")
    assert all(task in name for name in rows.locator("td:first-child").all_inner_texts())
    assert len(set(rows.locator("td:nth-child(2)").all_inner_texts())) == 2, "the samples of both runs"


# -- what clicks lead to -----------------------------------------------------------------------------------------------


def test_a_number_is_a_filter(newcomer: Newcomer) -> None:
    page = newcomer.page
    newcomer.menu("Rollouts")
    number = page.locator(".stats div", has_text="masked").locator("a")
    told = number.inner_text()
    newcomer.click(number)
    expect(page.locator(".pager")).to_contain_text(f"of {told} rollouts")


def test_a_click_right_after_typing_leads_where_it_should(newcomer: Newcomer) -> None:
    """What was typed is looked for a moment later: by then another page may have been asked for."""
    page = newcomer.page
    newcomer.menu("Rollouts")
    page.evaluate(
        """() => {
          const field = document.querySelector('input[type=search]');
          field.value = 'django';
          field.dispatchEvent(new InputEvent('input', {bubbles: true}));
          document.querySelector('tbody tr td a').click();
        }"""
    )
    page.wait_for_timeout(500)
    settled(page)
    assert "view=rollout&" in page.url
    expect(page.locator(".tabs").first).to_contain_text("overview")


def test_the_list_is_the_one_that_it_was_chosen_from(served: Served, open_page: Opened) -> None:
    """Of all runs, and filtered: *list* and *next* know it, whatever part of the rollout was looked at."""
    page = open_page(served.at("view=rollouts&status=masked&sort=rollout_id"))
    names = page.locator("table[aria-label=rollouts] tbody tr td:first-child")
    first, second = names.nth(0).inner_text(), names.nth(1).inner_text()
    runs = page.locator("table[aria-label=rollouts] tbody tr td:nth-child(2)")
    assert (first, runs.nth(0).inner_text()) != (second, runs.nth(1).inner_text())
    following = (second, runs.nth(1).inner_text())
    names.nth(0).locator("a").click()
    settled(page)
    page.locator(".tabs").get_by_role("link", name="steps").click()
    settled(page)
    page.keyboard.press("n")
    settled(page)
    expect(page.locator("h1")).to_have_text(following[0])
    expect(page.locator(".heading .sub")).to_contain_text(following[1])
    page.get_by_role("link", name="list", exact=True).click()
    settled(page)
    expect(page.locator(".scope")).to_have_count(0)
    expect(names.nth(0)).to_have_text(first)


# -- parked ------------------------------------------------------------------------------------------------------------


def test_what_is_parked_now_is_marked_wherever_it_matters(
    tmp_path: Path, serve_once: Callable[..., Served], open_page: Opened
) -> None:
    with RunWriter(tmp_path / "live", sync=False) as writer:
        writer.append(ev.RunStarted(name="live", rollouts=3))
        for number in range(3):
            names = {"rollout_id": f"a__b-{number}.0", "attempt": 1}
            writer.append(ev.RolloutQueued(rollout_id=f"a__b-{number}.0", instance_id=f"a__b-{number}"))
            writer.append(ev.AttemptStarted(**names))
            writer.append(ev.StageStarted(**names, stage="invoke_agent"))
        for number in range(2):
            writer.append(ev.RolloutParked(rollout_id=f"a__b-{number}.0", attempt=1, checkpoint_id="c1"))
        served = serve_once(tmp_path)
        for view in ("runs", "budgets", "checkpoints"):
            page = open_page(served.at(f"view={view}"))
            mark = page.locator("main a", has_text="2 parked").first
            expect(mark).to_be_visible()
            mark.click()
            settled(page)
            expect(page.locator(".pager")).to_contain_text("of 2 rollouts")
        page.goto(served.at("view=checkpoints"))
        page.wait_for_selector("body[data-ready]", state="attached")
        expect(page.locator(".notice").first).to_contain_text("A checkpoint is being taken")
        for number in range(2):
            writer.append(ev.RolloutUnparked(rollout_id=f"a__b-{number}.0", attempt=1, checkpoint_id="c1"))
        expect(page.locator("main a", has_text="parked")).to_have_count(0, timeout=5000)
