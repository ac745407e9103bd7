"""Masks, budgets, checkpoints, retention and sandboxes in a real browser: what they answer, and what they survive."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from benchmarks.made_up_store import MadeUp
from swe_sdk.dashboard.advice import ADVICE
from swe_sdk.model.budget import Budget
from swe_sdk.model.outcome import Mask
from swe_sdk.sandbox.leases import LeaseBook
from swe_sdk.store import events as ev
from swe_sdk.store.filters import RolloutFilter
from swe_sdk.store.index import RunIndex, open_index
from swe_sdk.store.writer import RunWriter
from tests.dashboard.browsing import follow, settled, texts
from tests.dashboard.conftest import Served

Opened = Callable[..., Page]
EVIL = '<img src=x onerror="window.evil=1"><script>window.evil=1</script>\' \x1b[31mred\u202e'
_VIEWS = ("masks", "budgets", "checkpoints", "retention", "sandboxes")


@pytest.fixture(scope="module")
def index(served: Served) -> RunIndex:
    with open_index(served.root) as opened:
        yield opened


def numbers(page: Page) -> dict[str, str]:
    """The large numbers of a page, by their labels."""
    labels, values = texts(page, ".stats dt"), texts(page, ".stats dd")
    return {label: value.split()[0] for label, value in zip(labels, values, strict=True)}


# -- masks -------------------------------------------------------------------------------------------------------------


def test_masks_are_counted_and_explained(served: Served, open_page: Opened, index: RunIndex) -> None:
    page = open_page(served.at("view=masks"))
    told = numbers(page)
    assert told["rollouts masked"] == str(index.count(RolloutFilter(status=("masked",))))
    assert told["worth another attempt"] == str(index.masks(final=True, retryable=True).total)
    kinds = Counter(row.mask.kind for row in index.masks(limit=1000).rows)
    kind, number = kinds.most_common(1)[0]
    follow(page, f"table[aria-label='masks by kind'] tr[data-key={kind}]")
    expect(page.locator("[data-key=advice]")).to_contain_text(ADVICE[kind].remedy)
    expect(page.locator("[data-key=evidence] .pager")).to_contain_text(f"of {number} masked attempts")
    assert f"mask={kind}" in page.url
    again = open_page(page.url)
    expect(again.locator("[data-key=evidence] .pager")).to_contain_text(f"of {number}")
    follow(again, "text=clear filters")
    expect(again.locator("[data-key=evidence] .pager")).to_contain_text(f"of {sum(kinds.values())}")


def test_the_table_of_kinds_leads_to_what_it_counts(served: Served, open_page: Opened, index: RunIndex) -> None:
    page = open_page(served.at("view=masks&by=provider"))
    cell = page.locator("table[aria-label='kinds provider'] td.heat a").first
    number = cell.inner_text()
    cell.click()
    settled(page)
    expect(page.locator("[data-key=evidence] .pager")).to_contain_text(f"of {number} masked attempts")
    follow(page, "[data-key=evidence] .tabs a:has-text('tried again')")
    assert set(texts(page, "table[aria-label='masked attempts'] td:nth-child(6)")) <= {"tried again", ""}
    page.locator("[data-key=evidence] .tabs a:has-text('all')").click()
    settled(page)
    page.locator("table[aria-label='masked attempts'] details summary").first.click()
    expect(page.locator("pre.evidence").first).to_be_visible()
    follow(page, "table[aria-label='masked attempts'] td:first-child a")
    expect(page.locator(".why")).to_be_visible()


def test_the_command_for_another_attempt_is_copied(served: Served, open_page: Opened, index: RunIndex) -> None:
    page = open_page(served.at("view=masks"))
    run = page.locator("table[aria-label='masks worth another attempt'] tbody tr").first
    command = run.locator("button[data-copy]").get_attribute("data-copy")
    path = index.run(run.locator("td").first.inner_text()).path
    assert command == f"swe-sdk resume {path} --retry-masked"
    run.locator("button[data-copy]").click()
    expect(run.locator("button")).to_have_text("copied")


def test_a_new_mask_appears_and_what_is_open_stays_open(
    serve_once: Callable[..., Served], open_page: Opened, tmp_path: Path
) -> None:
    with RunWriter(tmp_path / "runs" / "going", sync=False) as writer:
        writer.append(ev.RunStarted(rollouts=2))
        _mask(writer, "first__x-1", "host_oom")
        page = open_page(serve_once(tmp_path / "runs").at("view=masks"))
        rows = page.locator("table[aria-label='masked attempts'] tbody tr")
        expect(rows).to_have_count(1)
        rows.locator("summary").click()
        expect(page.locator("pre.evidence")).to_be_visible()
        _mask(writer, "second__x-1", "no_space")
        expect(rows).to_have_count(2, timeout=5000)
        expect(rows.nth(0)).to_contain_text("second__x-1.0")
        expect(page.locator("pre.evidence:visible")).to_have_count(1)
        expect(rows.nth(1).locator("pre.evidence")).to_be_visible()
        assert numbers(page)["rollouts masked"] == "2"
        expect(page.locator("table[aria-label='masks worth another attempt'] tbody")).to_contain_text("when it is over")


def _mask(writer: RunWriter, name: str, kind: str) -> None:
    mask = Mask.model_validate(
        {"kind": kind, "stage": "tests", "reason": "made up", "retryable": True, "evidence": {"free_bytes": 0}}
    )
    of = {"rollout_id": f"{name}.0", "attempt": 1}
    writer.append(ev.RolloutQueued(rollout_id=f"{name}.0", instance_id=name))
    writer.append(ev.AttemptStarted(**of, provider="local"))
    writer.append(ev.AttemptMasked(**of, mask=mask))
    writer.append(ev.RolloutEnded(**of, status="masked"))


# -- budgets -----------------------------------------------------------------------------------------------------------


def test_budgets_are_those_of_the_store(served: Served, open_page: Opened, index: RunIndex) -> None:
    page = open_page(served.at("view=budgets"))
    assert numbers(page)["ran out"] == str(index.budget_totals().exhausted)
    rows = "table[aria-label='budgets of rollouts'] tbody tr"
    expected = [row.rollout_id for row in index.rollouts(sort="spent_s", descending=True, limit=50).rows]
    assert texts(page, f"{rows} td:first-child") == expected
    follow(page, "th a:has-text('parked')")
    expected = [row.rollout_id for row in index.rollouts(sort="parked_s", descending=True, limit=50).rows]
    assert texts(page, f"{rows} td:first-child") == expected
    follow(page, "table[aria-label='budgets by run'] tbody tr:nth-child(2)")
    assert numbers(page)["ran out"] == str(
        index.budget_totals(RolloutFilter(run=(page.locator(".scope span").first.inner_text(),))).exhausted
    )
    with page.expect_download() as download:
        page.locator("a[download]").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert len(lines) == 1 + 100
    assert lines[0].startswith("run,rollout_id,status,attempt,total_s,spent_s")


def test_a_drawing_is_saved_as_a_picture(served: Served, open_page: Opened) -> None:
    page = open_page(served.at("view=budgets"))
    with page.expect_download() as download:
        page.locator("button[data-png]").click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")


def test_who_is_about_to_run_out_is_said_by_the_clock(
    serve_once: Callable[..., Served], open_page: Opened, tmp_path: Path
) -> None:
    now = time.time()
    with RunWriter(tmp_path / "runs" / "going", sync=False) as writer:
        writer.append(ev.RunStarted(rollouts=2))
        for name, began in (("hurries__x-1", now - 890), ("waits__x-1", now - 20)):
            of = {"rollout_id": f"{name}.0", "attempt": 1}
            writer.append(ev.RolloutQueued(rollout_id=f"{name}.0", instance_id=name), at=began)
            writer.append(ev.AttemptStarted(**of), at=began)
            writer.append(ev.BudgetCharged(**of, budget=Budget(total_s=900.0, spent_s=1.0)), at=began)
            writer.append(ev.StageStarted(**of, stage="invoke_agent"), at=began)
        page = open_page(serve_once(tmp_path / "runs").at("view=budgets"))
        rows = page.locator("table[aria-label='about to run out'] tbody tr")
        expect(rows).to_have_count(2)
        expect(rows.nth(0)).to_contain_text("hurries__x-1.0")
        expect(rows.nth(1)).to_contain_text("in 14 m")
        writer.append(ev.RolloutEnded(rollout_id="hurries__x-1.0", attempt=1, status="unresolved"))
        expect(rows).to_have_count(1, timeout=4000)


# -- checkpoints -------------------------------------------------------------------------------------------------------


def test_which_checkpoint_can_be_restored_and_what_it_holds(
    served: Served, open_page: Opened, index: RunIndex, store: tuple[Path, MadeUp]
) -> None:
    page = open_page(served.at("view=checkpoints"))
    follow(page, f"tr[data-key='{store[1].live_run}']")
    newest = [row for row in index.checkpoints(store[1].live_run) if row.state == "kept"][-1]
    answer = page.locator(".notice.info")
    expect(answer).to_contain_text(f"Can be restored: {newest.checkpoint_id}")
    rows = index.checkpoint_rollouts(newest.checkpoint_id, run=store[1].live_run)
    held = [row for row in rows if row.held == "saved"]
    expect(answer).to_contain_text(f"{len(held)} rollouts go on")
    follow(page, ".notice.info a")
    detail = page.locator("[data-key=detail]")
    expect(detail.locator("tbody tr")).to_have_count(min(25, len(held)))
    expect(detail).to_contain_text(f"holds {len(held)}")
    follow(page, "[data-key=detail] .tabs a:has-text('starts over')")
    restarts = [row for row in rows if row.held == "restart"]
    if restarts:
        expect(detail.locator("tbody tr").first).to_contain_text(restarts[0].reason)
    follow(page, "text=close")
    expect(detail).to_have_count(0)


def test_a_finished_run_says_why_nothing_can_be_restored(served: Served, open_page: Opened, index: RunIndex) -> None:
    run = next(row.run for row in index.runs() if row.end_reason == "finished")
    page = open_page(served.at(f"view=checkpoints&run={run}"))
    expect(page.locator(".notice.info")).to_contain_text("every rollout is finished")
    assert numbers(page)["can be restored"] == "0"


def test_a_damaged_checkpoint_is_told_and_the_one_before_it_is_offered(
    serve_once: Callable[..., Served], open_page: Opened, store: tuple[Path, MadeUp], tmp_path: Path
) -> None:
    root = tmp_path / "runs"
    shutil.copytree(store[0] / store[1].live_run, root / "copied")
    with open_index(root) as index:
        kept = [row.checkpoint_id for row in index.checkpoints("copied") if row.state == "kept"]
    (records,) = (root / "copied" / "checkpoints" / kept[-1]).glob("gym/environment/*/records-*.jsonl")
    records.write_bytes(records.read_bytes()[:-20])
    page = open_page(serve_once(root).at("view=checkpoints"))
    expect(page.locator(".notice.bad")).to_contain_text(f"{kept[-1]} cannot be restored")
    expect(page.locator(".notice.info")).to_contain_text(f"Can be restored: {kept[-2]}")


# -- retention ---------------------------------------------------------------------------------------------------------


def test_what_leaks_and_what_is_missing_is_found_from_the_first_page(
    served: Served, open_page: Opened, store: tuple[Path, MadeUp]
) -> None:
    made = store[1]
    page = open_page(served.at("view=retention"))
    expect(page.locator(".notice.bad li")).to_have_count(2)
    follow(page, ".notice.bad li:has-text('leaked') a")
    expect(page.locator(".notice.warn")).to_contain_text("swe-sdk snapshots --reap")
    first = page.locator("table[aria-label=snapshots] tbody tr").first
    expect(first).to_contain_text(made.leaked)
    expect(first.locator("rect.tone-snapshot-leaked")).to_have_count(1)
    page.go_back()
    settled(page)
    follow(page, ".notice.bad li:has-text('missing') a")
    follow(page, "[data-key=map] .tabs a:has-text('violated')")
    rows = page.locator("table[aria-label=snapshots] tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text(made.violated)
    expect(page.locator(".notice.bad")).to_contain_text("1 snapshot gone")


def test_what_would_go_follows_the_choice_of_checkpoints(
    served: Served, open_page: Opened, index: RunIndex, store: tuple[Path, MadeUp]
) -> None:
    run = store[1].live_run
    page = open_page(served.at(f"view=retention&run={run}"))
    box = page.locator("[data-key=if]")
    expect(box).to_contain_text("0 snapshots")
    kept = [row.checkpoint_id for row in index.checkpoints(run) if row.state == "kept"]
    follow(page, f"[data-key=if] a:has-text('{kept[-1]}')")
    gone = [
        row.snapshot_id
        for row in index.snapshots(run)
        if row.released_at is None and not set(row.referenced_by) & set(kept[:-1])
    ]
    expect(box).to_contain_text(f"{len(gone)} snapshot")
    follow(page, f"[data-key=if] a:has-text('{kept[-1]}')")
    expect(box).to_contain_text("0 snapshots")


def test_an_audit_asks_the_provider_and_changes_nothing(
    served: Served, open_page: Opened, store: tuple[Path, MadeUp]
) -> None:
    root, made = store
    before = sorted((path, path.stat().st_mtime_ns) for path in (root / made.live_run).rglob("*") if path.is_file())
    page = open_page(served.at(f"view=retention&run={made.live_run}"))
    follow(page, "text=Ask the provider")
    box = page.locator("[data-key=audit]")
    expect(box.locator("tbody tr, .notice")).to_have_count(1, timeout=20_000)
    after = sorted((path, path.stat().st_mtime_ns) for path in (root / made.live_run).rglob("*") if path.is_file())
    assert after == before


# -- sandboxes ---------------------------------------------------------------------------------------------------------


def test_a_box_of_this_process_is_there_and_goes(
    serve_once: Callable[..., Served],
    open_page: Opened,
    store: tuple[Path, MadeUp],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SWE_SDK_STATE", str(tmp_path / "state"))
    book = LeaseBook()
    lease = book.intend("docker", settings={"base_url": "unix:///nowhere.sock"}, task=f"task {EVIL}")
    lease = book.confirm(lease, "c0ffee" * 8)
    page = open_page(serve_once(store[0]).at("view=sandboxes"))
    rows = page.locator(
        "table[aria-label=sandboxes] tbody tr", has_text="c0ffee"
    )  # there may be other programs' groups
    expect(rows).to_have_count(1, timeout=20_000)
    expect(rows).to_contain_text("lives")
    expect(rows).to_contain_text("stays")
    assert int(numbers(page)["boxes"]) >= 1
    with pytest.raises(OSError, match="no answer"), book.closing(lease):
        raise OSError("no answer")
    expect(rows).to_contain_text("could not close it", timeout=20_000)
    expect(page.locator(".notice.warn")).to_contain_text("stuck or left over")
    with book.closing(lease):
        pass
    expect(rows).to_have_count(0, timeout=20_000)
    assert page.evaluate("window.evil") is None


@pytest.mark.parametrize("view", ["runs", "rollouts", "masks", "budgets", "checkpoints", "retention"])
def test_a_phone_scrolls_no_page_sideways(served: Served, open_page: Opened, view: str) -> None:
    page = open_page(served.at(f"view={view}"), width=400)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(
        "[...document.querySelectorAll('.card > header h2')].every("
        "h => h.getBoundingClientRect().right <= h.closest('.card').getBoundingClientRect().right)"
    )


@pytest.mark.parametrize("width", [1280, 1920])
def test_nothing_is_wider_than_the_window(
    served: Served, open_page: Opened, index: RunIndex, store: tuple[Path, MadeUp], width: int
) -> None:
    run = store[1].live_run
    newest = [row.checkpoint_id for row in index.checkpoints(run) if row.state == "kept"][-1]
    page = open_page(served.at("view=masks&mask=sandbox_lost&by=run"), width=width)
    for query in (
        "view=masks&which=worth",
        "view=masks&by=run",
        f"view=budgets&run={run}",
        f"view=checkpoints&run={run}&checkpoint={newest}",
        f"view=retention&run={run}&show=all",
    ):
        page.goto(served.at(query))
        expect(page.locator("main .table").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), query
        clipped = page.evaluate(
            "[...document.querySelectorAll('.table')].filter(t => t.scrollWidth > t.clientWidth + 1).length"
        )
        assert clipped == 0, f"{query} has tables that must be scrolled"


# -- whatever is written -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", _VIEWS)
def test_nothing_is_there_yet(
    serve_runs: Callable[..., Served], open_page: Opened, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    page = open_page(_served_once(serve_runs, tmp_path_factory, "nothing", lambda _root: None).at(f"view={name}"))
    expect(page.locator(".empty h3, .table").first).to_be_visible(timeout=20_000)
    assert page.locator(".problem").count() == 0


@pytest.mark.parametrize(
    "query", [*(f"view={name}" for name in _VIEWS), "view=checkpoints&checkpoint=c1&holds=restarts"]
)
def test_hostile_text_is_text(
    serve_runs: Callable[..., Served], open_page: Opened, tmp_path_factory: pytest.TempPathFactory, query: str
) -> None:
    served = _served_once(serve_runs, tmp_path_factory, "hostile", _write_hostile)
    page = open_page(served.at(query))
    expect(page.locator(".stats, .empty").first).to_be_visible(timeout=20_000)
    page.wait_for_timeout(300)
    assert page.evaluate("window.evil") is None
    assert page.locator("#page img, #page script").count() == 0


_SERVED: dict[str, Served] = {}


def _served_once(
    serve_runs: Callable[..., Served],
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    write: Callable[[Path], None],
) -> Served:
    if name not in _SERVED:
        root = tmp_path_factory.mktemp(name)
        write(root)
        _SERVED[name] = serve_runs(root)
    return _SERVED[name]


def _write_hostile(root: Path) -> None:
    """Every text that these views show, written by somebody who means harm; and a line that nobody can read."""
    mask = Mask(kind="timeout", stage="tests", reason=EVIL, retryable=True, evidence={EVIL: [EVIL]})
    of = {"rollout_id": f"{EVIL}.0", "attempt": 1}
    with RunWriter(root / "evil", sync=False) as writer:
        writer.append(ev.RunStarted(name=EVIL, agent=EVIL, model=EVIL, dataset=EVIL))
        writer.append(ev.RolloutQueued(rollout_id=f"{EVIL}.0", instance_id=EVIL, family=EVIL, provider=EVIL))
        writer.append(ev.AttemptStarted(**of, provider=EVIL, restored_from=EVIL))
        writer.append(ev.BudgetCharged(**of, budget=Budget(total_s=10.0, spent_s=1e300)))
        writer.append(ev.AttemptMasked(**of, mask=mask))
        writer.append(ev.RolloutEnded(**of, status="masked", reason=EVIL))
        for name in (EVIL, "c1"):
            writer.append(ev.CheckpointPhase(checkpoint_id=name, operation="prepare", seconds=1e300))
            writer.append(ev.CheckpointPhase(checkpoint_id=name, operation=EVIL, seconds=1, ok=False, message=EVIL))
            writer.append(
                ev.CheckpointRollout(
                    checkpoint_id=name, rollout_id=f"{EVIL}.0", attempt=1, held="restart", boundary=EVIL, reason=EVIL
                )
            )
            writer.append(
                ev.SnapshotTaken(checkpoint_id=name, snapshot_id=f"{EVIL}{name}", rollout_id=EVIL, provider=EVIL)
            )
            writer.append(ev.SnapshotReferenced(checkpoint_id=name, snapshot_id=f"{EVIL}{name}", rollout_id=EVIL))
            writer.append(ev.CheckpointSaved(checkpoint_id=name, path=EVIL, seconds=1e300))
        writer.append(ev.SnapshotReleased(snapshot_id=f"{EVIL}c1", reason=EVIL))
    (journal,) = (root / "evil" / "events").iterdir()
    with journal.open("ab") as lines:
        lines.write(b'{"v":1,"n":99,"t":1.0,"event":{"kind":"no such thing"}}\n')
