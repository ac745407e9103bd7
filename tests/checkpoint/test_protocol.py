"""The pure machine, one rule after the other."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from swe_sdk.checkpoint.codes import CODES, Code
from swe_sdk.checkpoint.messages import Operation, Phase
from swe_sdk.checkpoint.protocol.machine import Call, Control, Step, begin, expiry, finish
from swe_sdk.checkpoint.protocol.table import RESUMED_MEMORY, RULES, rule_cells
from tests.checkpoint.house import refused

DOCS = Path(__file__).resolve().parents[2] / "docs" / "checkpoints.md"


def call(operation: Operation, name: str = "c1", *, deadline: float = 100.0, arguments: str = "") -> Call:
    return Call(operation, name, deadline, arguments)


def take(control: Control, one: Call, now: float = 0.0) -> Step:
    return begin(control, one, now=now, grace_s=10.0)


def done(control: Control, one: Call, reply: Any = None, now: float = 0.0) -> Control:
    step = take(control, one, now)
    return finish(step.control, one, "done", reply) if step.action == "work" else step.control


PREPARED = done(Control(), call("prepare"), "ready")
IN_PHASE: dict[Phase, Control] = {
    "idle": Control(),
    "preparing": take(Control(), call("prepare")).control,
    "prepared": PREPARED,
    "committed": done(PREPARED, call("commit"), "written"),
    "restored": done(Control(), call("restore"), "installed"),
}


@pytest.mark.parametrize("phase", get_args(Phase))
@pytest.mark.parametrize("operation", RULES)
def test_every_operation_is_allowed_where_the_table_says(phase: Phase, operation: Operation) -> None:
    rule, control = RULES[operation], IN_PHASE[phase]
    assert control.phase == phase
    if operation == "release" and phase == "idle":
        control = replace(control, newest="c1")
    answered = operation in control.answers and not rule.idle
    allowed = (phase == "idle" and (rule.opens or rule.idle)) or phase in rule.open_phases or answered
    if not allowed:
        with refused("invalid_phase"):
            take(control, call(operation))
        return
    step = take(control, call(operation))
    assert step.action in ("work", "replay", "nothing")
    if step.action == "work":
        ended = finish(step.control, call(operation), "done", "reply")
        assert ended.phase == (rule.done or phase)


@pytest.mark.parametrize("phase", ["preparing", "prepared", "committed", "restored"])
@pytest.mark.parametrize("operation", ["prepare", "renew", "commit"])
def test_another_checkpoint_is_a_conflict(phase: Phase, operation: Operation) -> None:
    with refused("checkpoint_conflict"):
        take(IN_PHASE[phase], call(operation, "c2"))


@pytest.mark.parametrize("operation", [one for one in RULES if one != "resume"])
def test_nothing_begins_after_its_deadline(operation: Operation) -> None:
    with refused("deadline_exceeded"):
        take(Control(), call(operation, deadline=5.0), now=5.0)


def test_a_resume_opens_however_late_it_comes() -> None:
    assert done(PREPARED, call("resume", deadline=1.0), now=50.0).phase == "idle"


@pytest.mark.parametrize("operation", [one for one in RULES if one not in ("resume", "release")])
def test_a_resumed_id_is_stale_even_if_it_was_never_seen(operation: Operation) -> None:
    for control in (done(PREPARED, call("resume")), done(Control(), call("resume"))):
        with refused("stale_checkpoint"):
            take(control, call(operation))


def test_the_last_64_resumed_ids_are_remembered() -> None:
    control = Control()
    for number in range(RESUMED_MEMORY + 1):
        control = done(control, call("resume", f"c{number}"))
    assert len(control.resumed) == RESUMED_MEMORY == 64
    assert take(control, call("prepare", "c0")).action == "work"
    with refused("stale_checkpoint"):
        take(control, call("prepare", "c1"))


def test_a_late_resume_of_another_id_opens_nothing() -> None:
    step = take(PREPARED, call("resume", "c0"))
    assert step.action == "nothing"
    assert step.control.phase == "prepared"
    with refused("stale_checkpoint"):
        take(step.control, call("renew", "c0"))


def test_the_lease_is_the_deadline_plus_the_grace_period_and_never_shorter() -> None:
    control = take(Control(), call("prepare", deadline=100.0)).control
    assert control.lease_expires_at == 110.0
    control = take(control, call("renew", deadline=200.0)).control
    assert control.lease_expires_at == 210.0
    late = take(control, call("renew", deadline=150.0)).control
    assert late.lease_expires_at == 210.0
    assert done(late, call("resume")).lease_expires_at is None


def test_a_lease_that_has_run_out_asks_for_a_resume() -> None:
    assert expiry(PREPARED, 109.9) is None
    owed = expiry(PREPARED, 110.0)
    assert owed is not None
    assert owed.checkpoint_id == "c1"
    opened = done(PREPARED, owed, now=110.0)
    assert (opened.phase, opened.newest) == ("idle", "c1")


def test_a_commit_is_done_once_and_gives_its_reply_again() -> None:
    first = take(PREPARED, call("commit", arguments="a"))
    assert first.action == "work"
    assert take(first.control, call("commit", arguments="a", deadline=300.0)).action == "join"
    with refused("checkpoint_conflict"):
        take(first.control, call("commit", arguments="b"))
    ended = finish(first.control, call("commit", arguments="a"), "done", "written")
    again = take(ended, call("commit", arguments="a"))
    assert (again.action, again.reply) == ("replay", "written")
    with refused("checkpoint_conflict"):
        take(ended, call("commit", arguments="b"))


def test_a_failed_commit_may_be_made_again_with_other_arguments() -> None:
    started = take(PREPARED, call("commit", arguments="a")).control
    failed = finish(started, call("commit", arguments="a"), "failed")
    assert failed.phase == "prepared"
    assert take(failed, call("commit", arguments="b")).action == "work"


def test_only_a_ready_prepare_is_stored() -> None:
    started = take(Control(), call("prepare")).control
    waiting = finish(started, call("prepare"), "unready", "blockers")
    assert waiting.phase == "preparing"
    assert take(waiting, call("prepare")).action == "work"
    ready = finish(waiting, call("prepare"), "done", "ready")
    assert take(ready, call("prepare", deadline=500.0)).reply == "ready"


def test_a_slow_prepare_that_ends_late_changes_nothing() -> None:
    started = take(Control(), call("prepare")).control
    committed = done(finish(started, call("prepare"), "done", "ready"), call("commit"), "written")
    assert finish(committed, call("prepare"), "failed") == committed
    resumed = done(committed, call("resume"))
    assert finish(resumed, call("commit"), "done", "written") == resumed
    assert finish(resumed, call("prepare"), "done", "ready") == resumed


@pytest.mark.parametrize("operation", ["prepare", "restore"])
def test_a_failure_opens_again_and_the_same_id_may_be_tried_again(operation: Operation) -> None:
    started = take(Control(), call(operation)).control
    failed = finish(started, call(operation), "failed")
    assert failed == Control()
    assert take(failed, call(operation)).action == "work"


def test_a_resume_that_cannot_clean_up_stays_closed_and_stale() -> None:
    step = take(IN_PHASE["restored"], call("resume"))
    closed = finish(step.control, call("resume"), "failed")
    assert closed.phase == "restored"
    with refused("stale_checkpoint"):
        take(closed, call("renew"))
    assert done(closed, call("resume")).phase == "idle"


def test_only_the_checkpoint_resumed_last_may_release() -> None:
    control = done(PREPARED, call("resume"))
    control = done(done(control, call("prepare", "c2"), "ready"), call("resume", "c2"))
    with refused("stale_checkpoint"):
        take(control, call("release", "c1", arguments="k"))
    late = done(control, call("resume", "c1"))
    assert late.newest == "c2"
    released = done(late, call("release", "c2", arguments="k"), "gone")
    assert take(released, call("release", "c2", arguments="k")).reply == "gone"
    assert take(released, call("release", "c2", arguments="none")).action == "work"
    given_up = done(released, call("resume", "c3"))  # others had begun it
    assert take(given_up, call("release", "c3", arguments="k")).action == "work"
    with refused("stale_checkpoint"):
        take(given_up, call("release", "c2", arguments="k"))


def test_a_release_reply_is_not_given_while_a_checkpoint_is_open() -> None:
    control = done(done(PREPARED, call("resume")), call("release", arguments="k"), "gone")
    for operation in ("prepare", "restore"):
        with refused("invalid_phase"):
            take(done(control, call(operation, "c2"), "ready"), call("release", arguments="k"))


def test_the_docs_have_the_table_and_the_codes() -> None:
    page = DOCS.read_text("utf-8")
    rows = [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in page.splitlines()]
    assert [row for row in rows if re.fullmatch(r"`\w+`", row[0]) and row[0].strip("`") in RULES] == [
        rule_cells(rule) for rule in RULES.values()
    ]
    codes = {row[0].strip("`"): (row[1], row[2]) for row in rows if row[0].strip("`") in CODES}
    assert codes == {code: (str(meaning.status), meaning.about) for code, meaning in CODES.items()}
    assert set(CODES) == set(get_args(Code))
