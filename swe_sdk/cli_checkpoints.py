"""``swe-sdk checkpoints`` and ``swe-sdk snapshots``."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import anyio

from swe_sdk import paths
from swe_sdk.cli_run_show import show_json, show_text
from swe_sdk.cli_show import console, make_table, plain
from swe_sdk.runs.checkpoints.snapshots import RunSnapshots, run_snapshots
from swe_sdk.runs.checkpoints.view import Checkpoint, Checkpoints
from swe_sdk.runs.run import Run
from swe_sdk.store.layout import is_run


def checkpoints(arguments: argparse.Namespace) -> int:
    """List the checkpoints of a run, or show one; 0."""
    with Run(arguments.path) as run:
        found = run.checkpoints
        chosen = [found[arguments.checkpoint]] if arguments.checkpoint else list(found)
        if arguments.json:
            show_json([_as_json(each) for each in chosen])
        elif arguments.checkpoint:
            _show_one(chosen[0])
        else:
            _show_all(found)
    return 0


def snapshots(arguments: argparse.Namespace) -> int:
    """Compare the snapshots of runs with what their checkpoints need and, with ``--reap``, delete the rest; 0."""
    runs = [Path(run) for run in arguments.runs] or _all_runs()
    found = [one for run in runs for one in anyio.run(partial(run_snapshots, run.absolute(), reap=arguments.reap))]
    if arguments.json:
        show_json([one.model_dump(mode="json") for one in found])
    else:
        _show_snapshots(found, reap=arguments.reap)
    return 0


def _all_runs() -> list[Path]:
    folder = paths.runs_dir()
    return sorted(path for path in folder.iterdir() if is_run(path)) if folder.is_dir() else []


def _as_json(checkpoint: Checkpoint) -> dict[str, object]:
    return {**checkpoint.to_dict(), "held": [row.model_dump(mode="json") for row in checkpoint.rollouts]}


def _show_all(found: Checkpoints) -> None:
    if not found:
        show_text("no checkpoint: none was asked for (--checkpoint-every 5m), or the run is finished and needs none")
        return
    table = make_table("checkpoint", "at (UTC)", "state", "rollouts", "snapshots", "restarts", "KiB", "seconds")
    for each in found:
        figures = (each.records.get("rollouts", 0), each.snapshots, len(each.restarts), each.bytes >> 10)
        seconds = " + ".join(f"{took_s:.2f}" for took_s in each.phases_s.values())
        at = f"{each.created_at:%Y-%m-%d %H:%M:%S}"
        table.add_row(plain(each.id), at, each.status, *map(str, figures), seconds)
    console().print(table)


def _show_one(checkpoint: Checkpoint) -> None:
    table = make_table("rollout", "attempt", "goes on with", "spent s", "why not")
    for row in checkpoint.rollouts:
        spent = f"{row.spent_s:.2f}" if row.held == "saved" else ""
        table.add_row(plain(row.rollout_id), str(row.attempt), row.boundary, spent, plain(row.reason))
    console().print(table)
    show_text(repr(checkpoint))


def _show_snapshots(found: list[RunSnapshots], *, reap: bool) -> None:
    table = make_table("run", "provider", "needed", "unneeded", "missing", "note")
    for one in found:
        counts = (len(one.found.needed), len(one.found.unneeded), len(one.found.missing))
        table.add_row(plain(one.run), one.provider, *map(str, counts), plain(one.skipped or ("reaped" * one.reaped)))
    console().print(table)
    unneeded = sum(len(one.found.unneeded) for one in found if not one.reaped)
    if unneeded and not reap:
        show_text(f"{unneeded} snapshots are needed by no checkpoint; --reap deletes them")
