"""Every view opens, filters, sorts, pages and follows its links, in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from benchmarks.made_up_store import MadeUp
from swe_sdk.dashboard.views import views
from swe_sdk.store.filters import RolloutFilter
from swe_sdk.store.index import RunIndex, open_index
from tests.dashboard.browsing import follow, settled, texts
from tests.dashboard.conftest import Served

Opened = Callable[..., Page]
_ROWS = "table[aria-label=rollouts] tbody tr"


@pytest.fixture(scope="module")
def index(served: Served) -> RunIndex:
    with open_index(served.root) as opened:
        yield opened


def _query(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


@pytest.mark.parametrize("name", sorted(views()))
def test_a_view_opens_by_its_link(served: Served, open_page: Opened, name: str) -> None:
    page = open_page(served.at(f"view={name}"))
    expect(page.locator("h1, .empty h3").first).to_be_visible()
    assert page.locator(".problem").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it is too wide for 1280"


def test_runs_can_be_sorted_filtered_and_compared(served: Served, open_page: Opened) -> None:
    page = open_page(served.at())
    rows = "table[aria-label=runs] tbody tr"
    expect(page.locator(rows)).to_have_count(6)
    follow(page, "th a:has-text('reward')")
    assert _query(page)["sort"] == ["-reward"]
    means = [float(text) for text in texts(page, f"{rows} td:nth-child(6)") if text[0].isdigit()]
    assert means == sorted(means, reverse=True)
    page.get_by_label("search").fill("openhands")
    expect(page.locator(rows)).to_have_count(2)
    page.get_by_label("search").fill("")
    expect(page.locator(rows)).to_have_count(6)
    follow(page, f"{rows}:nth-child(1) >> text=compare")
    follow(page, f"{rows}:nth-child(2) >> text=with this")
    expect(page.get_by_role("heading", name="Compare")).to_be_visible()
    assert len(_query(page)["run"]) == 2
    before = texts(page, ".stats dd")[:2]
    follow(page, "text=swap")
    assert texts(page, ".stats dd")[:2] == before[::-1], "what was gained is lost the other way round"


def test_rollouts_are_filtered_in_the_store(served: Served, open_page: Opened, index: RunIndex) -> None:
    page = open_page(served.at("view=rollouts"))
    expect(page.locator(_ROWS)).to_have_count(50)
    page.locator("details.menu", has_text="status").locator("summary").click()
    page.locator("label", has_text="masked").locator("input").first.check()
    settled(page)
    total = index.count(RolloutFilter(status=("masked",)))
    expect(page.locator(".pager")).to_contain_text(f"of {total}")
    assert _query(page)["status"] == ["masked"]
    assert all("masked" in status for status in texts(page, f"{_ROWS} td:nth-child(3)"))
    assert page.locator("details.menu[open]").count() == 1, "the menu stays open while it is used"
    page.get_by_label("search").fill("django")
    total = index.count(RolloutFilter(status=("masked",), text="django"))
    expect(page.locator(".heading .sub")).to_contain_text(f"{total} of")
    assert all("django" in name for name in texts(page, f"{_ROWS} td:nth-child(1)"))
    follow(page, "text=clear filters")
    expect(page.locator(".pager")).to_contain_text("of 600")


def test_a_list_is_paged_and_sorted_by_keys_and_links(served: Served, open_page: Opened, index: RunIndex) -> None:
    page = open_page(served.at("view=rollouts&sort=-spent_s"))
    expected = [row.rollout_id for row in index.rollouts(sort="spent_s", descending=True, limit=100).rows]
    assert texts(page, f"{_ROWS} td:nth-child(1)") == expected[:50]
    page.keyboard.press("]")
    expect(page.locator(".pager")).to_contain_text("51 to 100")
    assert texts(page, f"{_ROWS} td:nth-child(1)") == expected[50:]
    page.go_back()
    expect(page.locator(".pager")).to_contain_text("1 to 50")
    again = open_page(served.at("view=rollouts&sort=-spent_s&page=2"))
    assert texts(again, f"{_ROWS} td:nth-child(1)") == expected[50:], "a link shows what it showed"


def test_a_rollout_is_reached_by_the_keyboard_alone(served: Served, open_page: Opened, index: RunIndex) -> None:
    page = open_page(served.at("view=rollouts&status=unresolved&sort=-steps"))
    rows = index.rollouts(RolloutFilter(status=("unresolved",)), sort="steps", descending=True, limit=3).rows
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text(rows[0].rollout_id)
    assert _query(page)["status"] == ["unresolved"], "the neighbours are those of the list"
    page.keyboard.press("n")
    settled(page)
    after = index.neighbours(
        rows[0].rollout_id,
        RolloutFilter(status=("unresolved",)),
        run=rows[0].run,
        sort="steps",
        descending=True,
    )[1]
    assert after is not None
    expect(heading).to_have_text(after.rollout_id)
    page.keyboard.press("p")
    expect(heading).to_have_text(rows[0].rollout_id)


def test_a_failed_test_is_proved_by_lines_of_the_log(served: Served, open_page: Opened, index: RunIndex) -> None:
    row = index.rollouts(RolloutFilter(status=("unresolved",)), sort="steps", descending=True, limit=1).rows[0]
    outcome = index.outcome(row.rollout_id, run=row.run)
    assert outcome is not None
    tests = {**outcome.tests.fail_to_pass, **outcome.tests.pass_to_pass}
    bad = next(name for name, status in tests.items() if status != "PASSED")
    page = open_page(served.at(f"view=rollout&run={row.run}&rollout={row.rollout_id}&tab=tests"))
    first = page.locator(".verdict").first
    expect(first.locator("code").first).to_have_text(bad)
    if tests[bad] != "MISSING":
        expect(first.locator(".proof .l").first).to_contain_text(tests[bad])
        line = first.locator(".proof .l a").first.inner_text()
        first.locator(".proof .l a").first.click()
        expect(page.locator(".text .here a")).to_have_text(line)
        expect(page.locator(".text .here code")).to_contain_text(bad)


def test_every_part_of_a_rollout_opens(served: Served, open_page: Opened, index: RunIndex) -> None:
    row = index.rollouts(RolloutFilter(status=("resolved",)), sort="steps", descending=True, limit=1).rows[0]
    page = open_page(served.at(f"view=rollout&run={row.run}&rollout={row.rollout_id}"))
    expect(page.locator("#timeline")).to_be_visible()
    follow(page, ".tabs a:has-text('steps')")
    expect(page.locator(".steps li")).to_have_count(row.steps)
    follow(page, ".tabs a:has-text('model calls')")
    expect(page.locator("table tbody tr").first).to_be_visible()
    follow(page, ".tabs a:has-text('patch')")
    expect(page.locator(".diff .add").first).to_be_visible()
    follow(page, ".tabs a:has-text('files')")
    expect(page.locator(".text.log .l").first).to_be_visible()


def test_a_mask_says_why_and_what_to_do(served: Served, open_page: Opened, index: RunIndex) -> None:
    row = index.rollouts(RolloutFilter(status=("masked",)), sort="steps", descending=True, limit=1).rows[0]
    page = open_page(served.at(f"view=rollout&run={row.run}&rollout={row.rollout_id}"))
    why = page.locator(".why")
    mask = next(
        mask for mask in index.masks(limit=500).rows if (mask.run, mask.rollout_id) == (row.run, row.rollout_id)
    )
    expect(why).to_contain_text(mask.mask.reason)
    expect(why).to_contain_text(mask.mask.stage)
    expect(why).to_contain_text("another attempt" if mask.mask.retryable else "same way")


def test_a_large_log_is_searched_and_jumped_in(
    served: Served, open_page: Opened, index: RunIndex, store: tuple[object, MadeUp]
) -> None:
    huge = store[1].huge_log
    run = index.runs()[-1].run
    page = open_page(served.at(f"view=rollout&run={run}&rollout={huge}&tab=files&file=huge.log"))
    expect(page.locator(".text.log .l")).to_have_count(400)
    page.get_by_label("find in the file").fill("is in the log once")
    page.keyboard.press("Enter")
    here = page.locator(".text .here")
    expect(here.locator("mark")).to_have_text("is in the log once")
    assert here.evaluate(
        "node => { const box = node.closest('.text').getBoundingClientRect(), at = node.getBoundingClientRect();"
        " return at.top >= box.top && at.bottom <= box.bottom; }"
    ), "the line that was found is to be seen"
    follow(page, "text=next match")
    expect(page.locator(".notice.warn")).to_contain_text("is not in it from there on")
    page.get_by_label("go to line").fill("12345")
    page.keyboard.press("Enter")
    expect(page.locator(".text .here a")).to_have_text("12,345")
    page.get_by_label("go to byte").fill("0")
    page.keyboard.press("Enter")
    expect(page.locator(".text .here a")).to_have_text("1")
    follow(page, ".jumps >> text=end")
    expect(page.locator(".card.wide header")).to_contain_text("to the end")


def test_light_and_dark_are_switched_and_kept(served: Served, open_page: Opened) -> None:
    page = open_page(served.at("view=rollouts"))
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    theme = page.evaluate("document.documentElement.dataset.theme")
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == theme


def test_what_makes_no_sense_in_a_link_is_told(served: Served, open_page: Opened) -> None:
    page = open_page(served.at("view=rollouts&status=nonsense&page=x&sort=; drop table&q=%00"))
    expect(page.locator(".notice.warn")).to_have_count(2)
    page = open_page(served.at("view=nothing"))
    expect(page.locator(".problem")).to_contain_text("There is no view")
    page = open_page(served.at("view=rollout&run=nobody&rollout=none"))
    expect(page.locator(".problem")).to_contain_text("nobody")


def test_keys_are_told_and_lead_where_they_say(served: Served, open_page: Opened) -> None:
    page = open_page(served.at("view=rollouts"))
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="Keys")).to_be_hidden()
    page.keyboard.press("/")
    page.keyboard.type("sympy")
    expect(page.locator(".heading .sub")).not_to_contain_text("600 of")
    assert _query(page)["q"] == ["sympy"]
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.closest('tr') === document.querySelector('tbody tr')")


def test_what_is_long_is_cut_and_scrolls_by_itself(served: Served, open_page: Opened, index: RunIndex) -> None:
    """At the width of a small window, no page does."""
    row = index.rollouts(RolloutFilter(status=("unresolved",)), sort="steps", descending=True, limit=1).rows[0]
    page = open_page(served.at("view=rollouts"), width=760)
    for query in ("view=runs", "view=rollouts", f"view=rollout&run={row.run}&rollout={row.rollout_id}&tab=files"):
        page.goto(served.at(query))
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), query
