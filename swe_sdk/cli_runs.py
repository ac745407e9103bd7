"""``swe-sdk runs`` and ``swe-sdk show``: look at what is there."""

from __future__ import annotations

import argparse
from pathlib import Path

from swe_sdk import paths
from swe_sdk.cli_grade import fresh_file
from swe_sdk.cli_run_show import show_config, show_json, show_rollout, show_run, show_runs, show_text
from swe_sdk.errors import InputError
from swe_sdk.runs.rollout import Rollout
from swe_sdk.runs.run import Run
from swe_sdk.store.index import open_index


def runs(arguments: argparse.Namespace) -> int:
    """List the runs of a directory; 0."""
    folder = Path(arguments.folder) if arguments.folder else paths.runs_dir()
    if not folder.is_dir() and arguments.folder:
        raise InputError(f"there is no directory {folder}")
    rows = []
    if folder.is_dir():
        with open_index(folder) as index:
            rows = index.runs()
    if arguments.json:
        show_json([row.model_dump(mode="json") for row in rows])
    else:
        show_runs(rows)
    return 0


def show(arguments: argparse.Namespace) -> int:
    """Show a run, a rollout or the end of a file; 0. Unknown names are bad input."""
    with Run(arguments.path) as run:
        if arguments.rows is not None:
            fresh_file(arguments.rows)
            count = run.export_nemo_gym(arguments.rows)
            show_text(f"{count} rows in {arguments.rows}")
        elif arguments.rollout is not None:
            _show_rollout(run.rollouts[arguments.rollout], arguments)
        else:
            _show_run(run, arguments)
    return 0


def _show_run(run: Run, arguments: argparse.Namespace) -> None:
    if arguments.steps or arguments.patch or arguments.log:
        raise InputError("--steps, --patch and --log are of one rollout", remedy="name it after the run")
    if arguments.config and not arguments.json:
        show_config(run)
        return
    if arguments.json:
        show_json(run.to_dict())
        return
    chosen = run.rollouts.where(status=arguments.status) if arguments.status else run.rollouts
    show_run(run, chosen.page(arguments.page, arguments.page_size))


def _show_rollout(rollout: Rollout, arguments: argparse.Namespace) -> None:
    if arguments.log:
        show_text(rollout.log(arguments.log).tail(arguments.lines))
    elif arguments.patch:
        show_text(rollout.patch.text)
    elif arguments.json:
        show_json(rollout.to_dict())
    else:
        show_rollout(rollout, steps=arguments.steps)
