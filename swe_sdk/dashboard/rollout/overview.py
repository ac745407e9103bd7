"""The first look at a rollout: what came of it and why, where its time went, its attempts."""

from __future__ import annotations

import json

from swe_sdk.dashboard.advice import advice_on
from swe_sdk.dashboard.components import Column, bar, card, cards, copy_button, facts, notice, table
from swe_sdk.dashboard.escape import Child, Html, cut, el, join, plain
from swe_sdk.dashboard.rollout.subject import Subject
from swe_sdk.dashboard.rollout.timeline import timeline
from swe_sdk.dashboard.show import DASH, ago, count, pill, seconds, since, status_pill, tone, when
from swe_sdk.dashboard.state import State
from swe_sdk.errors import SweError
from swe_sdk.model.outcome import Mask, Outcome
from swe_sdk.store.rows import AttemptRow
from swe_sdk.store.standing import CUT_OFF, is_over

_STEPS = 400
_TAIL_LINES = 12
_LONGEST = 6000
_SEEN = 0.005
"""Less than that part of a budget is no bar that anybody sees."""


def overview_tab(subject: Subject) -> Html:
    """Why comes first where it is masked."""
    mask = subject.mask
    return join(
        _mask(subject, mask) if mask is not None else None,
        card("Timeline", _timeline(subject), note=_span(subject), cls="wide", key="timeline-card"),
        cards(_result(subject), _budget(subject), _facts(subject)),
        _attempts(subject),
    )


# -- why -------------------------------------------------------------------------------------------------------------


def _mask(subject: Subject, mask: Mask) -> Html:
    advice = advice_on(mask.kind)
    head = el("p", pill("mask", mask.kind), " in ", el("b", mask.stage), ": ", plain(mask.reason)[:_LONGEST])
    again = "It is worth another attempt. " if mask.retryable else "Another attempt would end in the same way. "
    command = advice.command
    todo = el("p", advice.meaning, " ", again, advice.remedy)
    run = el("p", el("code", command), copy_button(command)) if command else None
    shown = json.dumps(mask.evidence, indent=2, ensure_ascii=False, default=str)[:_LONGEST] if mask.evidence else ""
    evidence = (
        el("details", el("summary", "evidence"), el("pre", plain(shown), cls="evidence"), open=True) if shown else None
    )
    note = "no measurement: its reward 0.0 is in no mean"
    return card("Why it is masked", head, todo, run, evidence, _tail(subject), note=note, cls="wide why", key="why")


def _tail(subject: Subject) -> Html | None:
    """The last that the box said: of the tests, else of the agent."""
    logs = [each for each in subject.artifacts if each.role in ("log", "transcript")]
    log = subject.test_log or (logs[-1] if logs else None)
    if log is None:
        return None
    try:
        with subject.context.index.open_artifact(log) as file:
            lines = file.tail(_TAIL_LINES)
    except (SweError, OSError) as error:
        return notice(f"{log.name} cannot be read: {error}", kind="warn")
    where = subject.context.link(["the end of ", el("code", cut(log.name, 80))], tab="files", file=log.name, end=1)
    text = "\n".join(plain(line.text)[:400] for line in lines)
    return join(el("p", where, cls="dim"), el("pre", text, cls="evidence")) if text else None


# -- when ------------------------------------------------------------------------------------------------------------


def _timeline(subject: Subject) -> Html:
    row, context = subject.row, subject.context
    stages = context.index.stages(row.rollout_id, run=row.run)
    steps = context.index.steps(row.rollout_id, run=row.run, attempt=subject.attempt, limit=_STEPS).rows
    times = [step.at for step in steps]
    attempts = [each.model_copy(update={"ended_at": subject.ends[each.attempt]}) for each in subject.attempts]
    drawn = timeline(attempts, stages, times, subject.attempt, context.now)
    return drawn or el("p", "It waits for its turn: nothing has begun.", cls="dim")


def _span(subject: Subject) -> Child:
    row = subject.row
    if row.started_at is None:
        return ["queued ", ago(row.queued_at)]
    if row.ended_at is None and is_over(subject.run):
        return ["began ", when(row.started_at), f", {CUT_OFF} ", ago(row.updated_at)]
    if row.ended_at is None:
        return ["began ", ago(row.started_at), ", going on for ", since(row.started_at)]
    return ["began ", when(row.started_at), ", over after ", seconds(row.seconds)]


# -- what ------------------------------------------------------------------------------------------------------------


def _result(subject: Subject) -> Html:
    row, outcome = subject.row, subject.outcome
    if outcome is None:
        status, stage = subject.context.status_of(row), row.stage or DASH
        told = facts(("status", status), ("stage", stage), ("why", plain(row.reason)[:_LONGEST]))
        return card("Result", told, el("p", "Not graded (yet).", cls="dim"), key="result")
    patch = outcome.patch
    applied = {True: "applied", False: "did not apply", None: "was not tried"}[patch.applied]
    has_verdicts = _required(outcome) and not outcome.masked
    tests = subject.context.link(_counts(outcome), tab="tests") if has_verdicts else None
    has_failed = outcome.status == "unresolved" and _required(outcome)
    failed = subject.context.link("Show it in the log", tab="tests") if has_failed else None
    return card(
        "Result",
        facts(
            ("verdict", pill("status", outcome.status)),
            ("reward", "none: masked" if outcome.masked else f"{outcome.reward:.1f}"),
            ("tests", tests),
            ("why", [plain(outcome.reason)[:_LONGEST], " ", failed] if outcome.reason or failed else None),
            ("patch", f"{applied}{f' by {patch.rung}' if patch.rung else ''}" if patch.exists else "empty"),
            ("flags", ", ".join(cut(flag, 80) for flag in outcome.flags)),
            ("graded in", outcome.provider),
        ),
        _grade_seconds(outcome.timings_s),
        key="result",
    )


def _required(outcome: Outcome) -> int:
    return len(outcome.tests.fail_to_pass) + len(outcome.tests.pass_to_pass)


def _counts(outcome: Outcome) -> str:
    """``1 of 2 fixed, 30 of 30 stayed as they were``."""
    told = []
    for tests, words in ((outcome.tests.fail_to_pass, "fixed"), (outcome.tests.pass_to_pass, "stayed as they were")):
        passed = sum(status in ("PASSED", "XFAIL") for status in tests.values())
        told += [f"{passed:,} of {len(tests):,} {words}"] if tests else []
    return ", ".join(told)


def _grade_seconds(timings_s: dict[str, float]) -> Html | None:
    known = [(name, spent) for name, spent in timings_s.items() if spent > 0 and name != "total"]
    if not known:
        return None
    told = ", ".join(f"{name} {seconds(spent)}" for name, spent in sorted(known, key=lambda each: -each[1])[:6])
    drawn = bar([("timing", name, spent) for name, spent in known], label=told)
    return el(
        "div", el("p", "seconds of the grade", cls="dim small"), drawn, el("p", told, cls="dim small"), cls="sub-bar"
    )


def _budget(subject: Subject) -> Html:
    row = subject.row
    left = None if row.total_s is None else max(0.0, row.total_s - row.spent_s)
    parts = [] if left is None else [("budget", "spent", row.spent_s), ("budget", "remaining", left)]
    waits = [("budget", "parked", row.parked_s), ("budget", "queued", row.queued_s)]
    waited_s = row.parked_s + row.queued_s
    limit = "no limit" if row.total_s is None else seconds(row.total_s)
    warn = None
    if left == 0.0:
        warn = notice("All of its budget is spent.", kind="warn")
    return card(
        "Budget",
        bar(parts, label=f"{seconds(row.spent_s)} of {limit} spent"),
        facts(
            ("spent", el("b", seconds(row.spent_s), cls=f"toned {tone('budget', 'spent')}")),
            ("left", "no limit" if left is None else seconds(left)),
            ("parked", [seconds(row.parked_s), el("span", " not charged", cls="dim")] if row.parked_s else None),
            ("queued", [seconds(row.queued_s), el("span", " not charged", cls="dim")] if row.queued_s else None),
        ),
        bar(waits, total=max(row.total_s or 0.0, waited_s)) if waited_s > _SEEN * (row.total_s or 0.0) else None,
        warn,
        note=f"of {limit}",
        key="budget",
    )


def _facts(subject: Subject) -> Html:
    row, context = subject.row, subject.context
    run = context.index.run(row.run)
    script = (
        "import swe_sdk as swe\n\n"
        f"rollout = swe.open_run({run.path!r}).rollouts[{row.rollout_id!r}]\n"
        "print(rollout, rollout.outcome)\n"
    )
    agent = " ".join(each for each in (row.agent, row.agent_version) if each)
    others = State(view="rollouts", run=(row.run,), instance_id=(row.instance_id,))
    return card(
        "Facts",
        facts(
            ("task", el("a", cut(row.instance_id, 120), href=f"?{others.query}", title="its other samples")),
            ("sample", row.sample),
            ("family", cut(row.family, 80)),
            ("repository", cut(row.repo, 120)),
            ("agent", cut(agent, 120)),
            ("model", cut(row.model, 120)),
            ("provider", cut(row.provider, 80)),
            ("tokens", f"{count(row.tokens_in)} in, {count(row.tokens_out)} out"),
            ("tags", ", ".join(f"{cut(key, 40)}={cut(value, 60)}" for key, value in row.tags.items())),
            ("directory", el("code", f"{run.path}/rollouts/{row.rollout_id}")),
        ),
        el(
            "p",
            copy_button(script, "copy as Python"),
            copy_button(f"swe-sdk show {run.path} {row.rollout_id}", "copy as command"),
        ),
        key="facts",
    )


# -- attempts --------------------------------------------------------------------------------------------------------


def _attempts(subject: Subject) -> Html:
    columns: list[Column[AttemptRow]] = [
        Column("attempt", lambda row: str(row.attempt)),
        Column("came to", lambda row: _came_to(subject, row)),
        Column(
            "ended", lambda row: cut(row.end_reason or ("not yet" if subject.ends[row.attempt] is None else ""), 40)
        ),
        Column("what it said", lambda row: cut(row.message, 200), cls="grow"),
        Column("from", lambda row: _restored(subject, row), cls="narrow"),
        Column("provider", lambda row: cut(row.provider, 20)),
        Column("steps", lambda row: count(row.steps), cls="num"),
        Column("took", lambda row: _took(row, subject.ends[row.attempt]), cls="num"),
    ]
    shown = table(
        subject.context,
        columns,
        subject.attempts,
        key=lambda row: f"attempt-{row.attempt}",
        href=lambda row: subject.context.href(attempt=row.attempt),
        label="attempts",
        nothing="none has begun",
    )
    note = "the last one counts; choose one to look at it" if len(subject.attempts) > 1 else None
    return card("Attempts", shown, note=note, cls="wide", key="attempts")


def _came_to(subject: Subject, row: AttemptRow) -> Child:
    if row.mask_kind is not None:
        return [pill("mask", row.mask_kind), el("small", " tried again", cls="dim") if row.will_retry else None]
    if row.outcome is not None:
        return pill("status", row.outcome)
    if row.ended_at is not None:
        return None
    if subject.ends[row.attempt] is not None:
        return status_pill(CUT_OFF)
    return status_pill("parked" if row.is_parked else "running")


def _restored(subject: Subject, row: AttemptRow) -> Child:
    if row.restored_from is None:
        return el("span", "the start", cls="dim", title=row.restart_reason or None)
    target = State(view="checkpoints", run=(subject.row.run,)).but(checkpoint=row.restored_from)
    place = f", {cut(row.boundary, 40)}" if row.boundary else ""
    return el("a", f"{cut(row.restored_from, 40)}{place}", href=f"?{target.query}", title=row.restored_from)


def _took(row: AttemptRow, end: float | None) -> Child:
    if row.started_at is None:
        return None
    if end is None:
        return since(row.started_at)
    return [el("span", "at most ", cls="dim") if row.ended_at is None else None, seconds(end - row.started_at)]
