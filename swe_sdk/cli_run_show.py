"""Runs and rollouts as tables for the terminal. Text of agents is never read as markup or control codes."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from swe_sdk.cli_show import console, make_table, plain, status_text
from swe_sdk.config.durations import shown_duration
from swe_sdk.runs.rollout import Rollout
from swe_sdk.runs.run import Run
from swe_sdk.shown import neutral
from swe_sdk.store.rows import RunRow
from swe_sdk.store.standing import CUT_OFF, word_of

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN = 60


def show_run(run: Run, rollouts: Sequence[Rollout] | None = None) -> None:
    """A page of its rollouts, its metrics, its masks in full, and where it is."""
    screen = console()
    shown = run.rollouts.page(1, _SHOWN) if rollouts is None else rollouts
    screen.print(_rollout_table(run.row, shown))
    if rollouts is None and len(run.rollouts) > len(shown):
        _say(screen, f"and {len(run.rollouts) - len(shown)} more: swe-sdk show {shlex.quote(str(run.path))} --page 2")
    _show_masks(screen, run)
    metrics = run.metrics
    _say(screen, f"\n{metrics.summary}\n{metrics.pass_at_1}")
    for stage in metrics.stages:
        _say(screen, f"  {stage.stage:<13}{stage.mean_s:8.2f} s on average, {stage.max_s:.2f} s at most")
    _say(screen, f"run: {run.path}")
    if not run.finished:
        command = f"swe-sdk resume {shlex.quote(str(run.path))}"
        plan = run.plan
        _say(screen, f"not finished: go on with  {plan.ways_on(run.path) if plan and plan.given else command}")


def show_rollout(rollout: Rollout, *, steps: bool = False) -> None:
    """What it is, its attempts and stages, its files and, if asked for, its steps."""
    screen = console()
    _say(screen, rollout.line)
    table = make_table("attempt", "stage", "seconds", "ended")
    ends = rollout.attempts_end
    for stage in rollout.stages:
        unended = "going on" if ends.get(stage.attempt) is None else CUT_OFF
        ended = "well" if stage.ok else stage.message or ("" if stage.ended_at else unended)
        seconds = "" if stage.seconds is None else f"{stage.seconds:.2f}"
        table.add_row(str(stage.attempt), plain(stage.stage), seconds, plain(ended))
    screen.print(table)
    for row in rollout.masks:
        _say(screen, f"attempt {row.attempt} masked: {row.mask.kind} in {row.mask.stage}: {row.mask.reason}")
    _say(screen, "files: " + ", ".join(rollout.logs or ("none",)))
    if steps:
        _show_steps(screen, rollout)


def show_text(text: str) -> None:
    """A text of an agent or a test, made safe; into a pipe as it is safe as well."""
    sys.stdout.write(neutral(text).rstrip("\n") + "\n")


def show_json(value: Any) -> None:
    """Plain data, as ASCII."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def show_runs(rows: Iterable[RunRow]) -> None:
    """A line a run, the newest first."""
    screen = console()
    table = make_table("run", "agent", "began", "rollouts", "resolved", "unresolved", "masked", "mean", "state")
    for row in rows:
        counts = [str(row.counts.get(status, 0)) for status in ("resolved", "unresolved", "masked")]
        mean = "" if row.reward_mean is None else f"{row.reward_mean:.3f}"
        began = "" if row.started_at is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(row.started_at))
        table.add_row(plain(row.run), plain(row.agent), began, str(row.rollouts), *counts, mean, _state(row))
    screen.print(table)


def show_config(run: Run) -> None:
    """Every setting, its value, and which layer said so."""
    table = make_table("setting", "value", "said by")
    plan = run.plan
    for key, value in run.config.model_dump(mode="json").items():
        shown = shown_duration(value) if key.endswith("_s") and value is not None else json.dumps(value)
        table.add_row(key, plain(shown), plain(plan.origins.get(key, "") if plan else ""))
    console().print(table)


def _rollout_table(run: RunRow, rollouts: Iterable[Rollout]) -> Any:
    table = make_table("rollout", "status", "reward", "attempt", "steps", "seconds", "why")
    for rollout in rollouts:
        row = rollout.row
        reward = "-" if row.reward is None or rollout.masked else f"{row.reward:.1f}"
        seconds = "" if row.seconds is None else f"{row.seconds:.1f}"
        why = plain(f"{row.mask_kind} in {row.mask_stage}: {row.reason}" if row.mask_kind else row.reason)
        status = status_text(word_of(run, row.status))
        table.add_row(plain(row.rollout_id), status, reward, str(row.attempt), str(row.steps), seconds, why)
    return table


def _show_masks(screen: Console, run: Run) -> None:
    """A line for each kind and stage of masks, with the newest reason in full: what to do is at its end."""
    for kind, count in run.metrics.masked_by_kind.items():
        rollout = next(iter(run.rollouts.where(mask_kind=kind).page(1, 1, sort="ended_at", descending=True)), None)
        reason = "" if rollout is None else f" in {rollout.row.mask_stage}: {rollout.row.reason}"
        _say(screen, f"\nmasked, {count} x: {kind}{reason}")


def _show_steps(screen: Console, rollout: Rollout) -> None:
    table = make_table("attempt", "step", "kind", "seconds", "tokens", "what")
    for row in rollout.steps:
        what = plain(row.step.summary if row.step is not None else "")
        tokens = f"{row.tokens_in}+{row.tokens_out}" if row.tokens_in or row.tokens_out else ""
        table.add_row(str(row.attempt), str(row.n), row.step_kind, f"{row.seconds:.2f}", tokens, what)
    screen.print(table)


def _state(row: RunRow) -> str:
    if row.end_reason is not None:
        return row.end_reason
    return "running" if row.alive else "killed" if row.alive is False else "unknown"


def _say(screen: Console, text: str) -> None:
    screen.print(neutral(text), markup=False, soft_wrap=True)
