"""Retention: which snapshots are kept for which checkpoints, which leak, which are missing, and what would go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from swe_sdk.dashboard.choose_run import choose_run
from swe_sdk.dashboard.components import (
    Column,
    card,
    copy_button,
    csv_link,
    empty,
    heading,
    notice,
    stats,
)
from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.escape import Child, Html, cut, el, join
from swe_sdk.dashboard.keeping import Standing, amount, being_saved, restorable, standing, would_delete
from swe_sdk.dashboard.parts.audits import audit_card, audit_pulse
from swe_sdk.dashboard.parts.snapshot_map import map_card, snapshot_number
from swe_sdk.dashboard.run_state import state_of
from swe_sdk.dashboard.show import count, in_bytes, many, pill, size
from swe_sdk.dashboard.view import View
from swe_sdk.store.rows import CheckpointRow, RunRow, SnapshotRow
from swe_sdk.store.sum_rows import SnapshotTotals

_ROWS = 40
_WHAT = (
    "A snapshot is kept as long as a kept checkpoint refers to it, whichever one it was taken under; it goes with "
    "the last one."
)


def _render(context: Context) -> Html:
    totals = context.once("snapshot totals", context.index.snapshot_totals)
    run = context.run
    if run is None:
        return join(heading("Retention", _WHAT), _troubles(context, totals), _choose(context, totals))
    row = context.index.run(run)
    snapshots = context.once(("snapshots", run), lambda: context.index.snapshots(run))
    found = context.index.checkpoints(run)
    head = heading(["Retention of ", cut(run, 80)], _WHAT, csv_link(context, "snapshots"))
    if not snapshots:
        return join(head, _nothing())
    saving = being_saved(found, is_going=state_of(row).is_going)
    stands = {each.snapshot_id: standing(each, saving) for each in snapshots}
    return join(
        head,
        _alarm(context, row, snapshots, stands),
        el("section", _stats(snapshots, stands), cls="card"),
        map_card(context, row, found, snapshots, stands),
        _what_if(context, found, snapshots),
        audit_card(context, row),
    )


# -- many runs ---------------------------------------------------------------------------------------------------------


def _troubles(context: Context, totals: Sequence[SnapshotTotals]) -> Html | None:
    bad = [each for each in totals if each.violations or each.leaks]
    if not bad:
        return None
    told = []
    for each in bad[:5]:
        name = context.link(cut(each.run, 60), run=(each.run,))
        parts = [f"{count(each.violations)} missing"] if each.violations else []
        parts += [f"{count(each.leaks)} leaked{in_bytes(each.leaked_bytes)}"] if each.leaks else []
        told.append(el("li", name, ": ", ", ".join(parts)))
    more = f" and {len(bad) - 5} more runs" if len(bad) > 5 else None
    kind = "bad" if any(each.violations for each in bad) else "warn"
    return notice(el("b", "Snapshots are not as they should be:"), el("ul", told), more, kind=kind)


def _choose(context: Context, totals: Sequence[SnapshotTotals]) -> Html:
    by_run = {each.run: each for each in totals}
    if not totals:
        return _nothing()
    more = [
        Column[RunRow]("snapshots there", lambda row: count(by_run[row.run].there), cls="num"),
        Column[RunRow]("", lambda row: size(by_run[row.run].there_bytes), cls="num"),
        Column[RunRow]("released", lambda row: count(by_run[row.run].released), cls="num"),
        Column[RunRow]("leaked", lambda row: snapshot_number("leaked", by_run[row.run].leaks), cls="num"),
        Column[RunRow]("missing", lambda row: snapshot_number("violated", by_run[row.run].violations), cls="num"),
    ]
    return choose_run(context, more, among=lambda row: row.run in by_run, note="runs that have taken snapshots")


def _nothing() -> Html:
    return empty(
        "No snapshots",
        "A run that saves itself freezes the sandboxes of its agents. Which of them are still needed is shown here.",
        "swe-sdk run mini --agent mini-swe-agent --checkpoint-every 5m",
    )


# -- one run -----------------------------------------------------------------------------------------------------------


def _alarm(
    context: Context, row: RunRow, snapshots: Sequence[SnapshotRow], stands: Mapping[str, Standing]
) -> Html | None:
    leaked = [each for each in snapshots if stands[each.snapshot_id] == "leaked"]
    violated = [each for each in snapshots if stands[each.snapshot_id] == "violated"]
    lost = sorted({name for each in violated for name in each.kept_by})
    alarms = []
    if violated:
        told = f"{many(len(violated), 'snapshot')} gone, which {many(len(lost), 'kept checkpoint')} would need: "
        links = [[context.link(name, view="checkpoints", checkpoint=name), " "] for name in lost[:5]]
        alarms.append(notice(told, links, "Such a checkpoint is skipped when the run is resumed.", kind="bad"))
    if leaked:
        number = f"{many(len(leaked), 'snapshot')} leaked{in_bytes(amount(leaked))}"
        told = f"{number}: there, and needed by no kept checkpoint. "
        command = f"swe-sdk snapshots --reap {row.path}"
        alarms.append(notice(told, el("code", command), copy_button(command), kind="warn"))
    return join(alarms) if alarms else None


def _stats(snapshots: Sequence[SnapshotRow], stands: Mapping[str, Standing]) -> Html:
    numbers, amounts = Counter[str](), Counter[str]()
    for each in snapshots:
        numbers[stands[each.snapshot_id]] += 1
        amounts[stands[each.snapshot_id]] += each.size_bytes or 0
    shared = sum(len(each.referenced_by) > 1 for each in snapshots)
    pairs: list[tuple[str, Child]] = [
        (word, [count(numbers[word]), el("small", f" {size(amounts[word])}") if amounts[word] else None])
        for word in ("kept", "leaked", "violated", "released")
    ]
    return stats(*pairs, ("needed by several checkpoints", count(shared)))


# -- what would go -----------------------------------------------------------------------------------------------------


def _what_if(context: Context, found: Sequence[CheckpointRow], snapshots: Sequence[SnapshotRow]) -> Html:
    kept = [each.checkpoint_id for each in restorable(found)]
    if not kept:
        return card("What would go", el("p", "No checkpoint is kept: whatever is there may go.", cls="dim"), cls="wide")
    asked = context.state.get("keep", "all")
    keep = [name for name in kept if asked == "all" or name in asked.split(",")]
    gone = would_delete(snapshots, keep)
    choices = [_choice(context, name, kept, keep) for name in kept[:60]]
    now = len(would_delete(snapshots, kept))
    told = [
        el("b", f"{many(len(gone), 'snapshot')}{in_bytes(amount(gone))}"),
        f" would be deleted; {count(sum(each.released_at is None for each in snapshots) - len(gone))} would stay.",
        f" Needed by no kept checkpoint as it is: {count(now)}." if now else None,
    ]
    names = ", ".join(each.snapshot_id for each in gone[:8])
    more = f" and {len(gone) - 8} more" if len(gone) > 8 else ""
    listed = el("p", cut(names, 400), more, cls="dim mono") if gone else None
    note = "choose which checkpoints to keep: nothing is deleted here"
    return card(
        "What would go", el("div", choices, cls="choices"), el("p", told), listed, note=note, cls="wide", key="if"
    )


def _choice(context: Context, name: str, every: Sequence[str], keep: Sequence[str]) -> Html:
    is_kept = name in keep
    others = [each for each in every if (each in keep) != (each == name)]
    value = "all" if len(others) == len(every) else ",".join(others) or "none"
    word = "kept" if is_kept else "released"
    return el("a", pill("checkpoint", word, label=name), href=context.href(keep=value), title=f"now {word} here")


def _csv(context: Context) -> Iterator[Sequence[object]]:
    """All snapshots of the runs, and what refers to them."""
    names = ("run", "snapshot_id", "rollout_id", "attempt", "checkpoint_id", "provider", "size_bytes", "taken_at")
    yield (*names, "released_at", "release_reason", "trouble", "referenced_by", "kept_by")
    for row in context.index.snapshots(context.run):
        about = (row.released_at, row.release_reason, row.trouble or "")
        yield (*(getattr(row, name) for name in names), *about, " ".join(row.referenced_by), " ".join(row.kept_by))


VIEW = View(
    "retention",
    "Retention",
    _render,
    hint="which snapshots are kept for which checkpoints, and which leak",
    pulse=audit_pulse,
    exports={"snapshots": _csv},
)
