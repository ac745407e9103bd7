"""``swe-sdk regrade``."""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

from swe_sdk import reverify
from swe_sdk.cli_grade import fresh_file, set_base_image
from swe_sdk.cli_show import console, make_table, plain, status_text
from swe_sdk.cli_stop import run_stoppable
from swe_sdk.grading.regrades import Regrade, Regrades
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.sandbox.registry import named_provider
from swe_sdk.shown import neutral
from swe_sdk.store.atomic import append_line
from swe_sdk.store.results import Results

_MAX_ROWS = 200


def regrade(arguments: argparse.Namespace) -> int:
    """Verify the run once more; 0, or with --strict 1 where a verdict changed."""
    if arguments.base_image is not None:
        set_base_image(arguments)
    if arguments.provider != "auto":
        named_provider(arguments.provider)
    tasks = None
    if arguments.tasks is not None:
        tasks = load_tasks(arguments.tasks, family=arguments.family, unknown_fields=arguments.unknown_fields)
    output = fresh_file(arguments.output)
    results = Results(arguments.results)
    work = partial(
        reverify.regrade,
        Path(arguments.run),
        tasks,
        only=arguments.only,
        results=results,
        on_regrade=None if output is None else partial(_write_line, output),
        provider=arguments.provider,
        limit=arguments.workers,
        tests_timeout_s=arguments.timeout,
        policy=arguments.policy,
        disk_mib=arguments.disk_mib or None,
    )
    regrades = run_stoppable(work)
    show_regrades(regrades, results)
    return int(arguments.strict and bool(regrades.changed))


def show_regrades(regrades: Regrades, results: Results) -> None:
    """Both verdicts of each that changed, what was skipped, and the summary."""
    screen = console()
    table = make_table("name", "was", "is", "tests", "why")
    for each in regrades.changed[:_MAX_ROWS]:
        cells = (status_text(each.before.status), status_text(each.after.status), str(len(each.tests) or ""))
        table.add_row(plain(each.name), *cells, plain(each.after.reason or each.before.reason))
    if regrades.changed:
        screen.print(table)
    for name, why in list(regrades.skipped.items())[:_MAX_ROWS]:
        screen.print(neutral(f"skipped {name}: {why}"), markup=False, soft_wrap=True)
    screen.print(f"\n{regrades.summary}\nresults: {results.path}", markup=False, soft_wrap=True)


def _write_line(output: Path, regrade: Regrade) -> None:
    append_line(output, json.dumps(regrade.to_dict()).encode())
