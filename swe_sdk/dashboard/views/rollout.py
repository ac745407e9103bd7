"""One rollout: what came of it and why, every test, every step, the patch, the logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from swe_sdk.dashboard.components import empty, heading, notice
from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.escape import Child, Html, cut, el, join
from swe_sdk.dashboard.rollout.changes import changes_tab
from swe_sdk.dashboard.rollout.files import files_tab
from swe_sdk.dashboard.rollout.files import pulse as pulse_of
from swe_sdk.dashboard.rollout.overview import overview_tab
from swe_sdk.dashboard.rollout.steps import steps_tab
from swe_sdk.dashboard.rollout.subject import Subject
from swe_sdk.dashboard.rollout.verdicts import verdicts_tab
from swe_sdk.dashboard.show import count, pill
from swe_sdk.dashboard.state import State
from swe_sdk.dashboard.view import View
from swe_sdk.dashboard.views.rollouts import among_of, runs_among, sort_of
from swe_sdk.errors import SweError
from swe_sdk.store.rows import RolloutRow

_TABS: Mapping[str, Callable[[Subject], Html]] = {
    "overview": overview_tab,
    "tests": verdicts_tab,
    "steps": steps_tab,
    "patch": changes_tab,
    "files": files_tab,
}


def _render(context: Context) -> Html:
    if not context.state.rollout:
        return empty("No rollout was chosen", ["Choose one among ", context.link("all rollouts", view="rollouts"), "."])
    subject = Subject.of(context)
    chosen = context.state.tab if context.state.tab in _TABS else "overview"
    return join(_head(subject), _tabs(subject, chosen), _older(subject), _TABS[chosen](subject))


def _head(subject: Subject) -> Html:
    row = subject.row
    chips: list[Child] = [subject.context.status_of(row), " "]
    if row.mask_kind is not None:
        chips += [pill("mask", row.mask_kind), " "]
    run = subject.context.link(cut(row.run, 60), view="rollouts")
    words = " · ".join(cut(each, 40) for each in (row.agent, row.model, row.provider) if each)
    return heading(row.rollout_id, [chips, run, f" · {words}"], *_neighbours(subject))


def _neighbours(subject: Subject) -> list[Html]:
    """The ones before and after it in the list that it was chosen from."""
    sort, is_down = sort_of(subject.context)
    chosen = _list(subject).filter
    before, behind = subject.context.index.neighbours(
        subject.row.rollout_id, chosen, run=subject.row.run, sort=sort, descending=is_down
    )
    steps = (("← previous", before, "p"), ("next →", behind, "n"))
    back = el("a", "list", href=f"?{_list(subject).query}", cls="button ghost", title="the list, as it was filtered")
    return [_step(subject, *step) for step in steps] + [back]


def _step(subject: Subject, label: str, row: RolloutRow | None, shortcut: str) -> Html:
    if row is None:
        return el("span", label, cls="button ghost off", aria_disabled="true")
    among = among_of(_list(subject).run, row.run)
    where = subject.context.state.model_copy(
        update={"rollout": row.rollout_id, "run": (row.run,), "attempt": None, "page": 1, "more": {}}
    ).but(among=among)
    return el(
        "a",
        label,
        href=f"?{where.query}",
        cls="button ghost",
        data_shortcut=shortcut,
        title=f"{row.rollout_id} ({shortcut})",
    )


def _list(subject: Subject) -> State:
    """The list that it was chosen from."""
    state = subject.context.state
    cleared: dict[str, object] = {"view": "rollouts", "rollout": "", "attempt": None, "tab": "", "page": 1, "more": {}}
    return state.model_copy(update={**cleared, "run": runs_among(state.get("among"), subject.row.run)})


def _tabs(subject: Subject, chosen: str) -> Html:
    attempt = subject.attempt_row
    numbers = {
        "tests": _tests(subject.row),
        "steps": count(attempt.steps) if attempt is not None else "0",
        "files": count(len(subject.artifacts)),
    }
    links = []
    for name in _TABS:
        among = subject.context.state.get("among")
        where = subject.context.state.model_copy(update={"tab": name, "page": 1, "more": {}}).but(among=among)
        small = el("small", numbers[name]) if numbers.get(name) else None
        current = "page" if name == chosen else None
        links.append(el("a", name, small, href=f"?{where.query}", aria_current=current))
    return el("nav", links, cls="tabs", aria_label="parts of this rollout")


def _tests(row: RolloutRow) -> str:
    total = (row.fail_to_pass_total or 0) + (row.pass_to_pass_total or 0)
    passed = (row.fail_to_pass_passed or 0) + (row.pass_to_pass_passed or 0)
    return f"{passed}/{total}" if total else ""


def _older(subject: Subject) -> Html | None:
    """That it is not the attempt that counts."""
    if subject.attempt == subject.row.attempt:
        return None
    newest = subject.context.link(f"attempt {subject.row.attempt}", attempt=None)
    return notice(f"This is attempt {subject.attempt}. What counts is ", newest, ".")


def _pulse(context: Context) -> object:
    try:
        return pulse_of(Subject.of(context))
    except SweError:  # the page itself says so
        return None


VIEW = View("rollout", "Rollout", _render, pulse=_pulse, in_menu=False, under="rollouts", hint="one rollout in detail")
