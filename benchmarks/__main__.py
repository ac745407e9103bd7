"""Run benchmarks and print their tables: ``python -m benchmarks --help``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import anyio

from benchmarks.lab import Lab, open_lab
from benchmarks.report import Conditions, put_into, section_markdown, to_json, to_markdown
from benchmarks.rows import Section, Unavailable, missing
from benchmarks.settings import FULL, QUICK, Settings
from benchmarks.state import default_state

NAMES = ("create", "execute", "concurrent", "snapshots", "grading", "parsers", "store", "checkpoints")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, whatever the figures say: a target that is missed is a figure, not an error."""
    options = _options(arguments)
    settings, words = _settings(options)
    conditions = Conditions.here(options.state or default_state(), words)
    print(conditions.sentence)
    sections: list[Section] = []
    with open_lab(settings, options.state) as lab:
        for name in options.names or NAMES:
            sections.append(run_one(name, lab))
            print(f"\n{section_markdown(sections[-1])}", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(to_json(conditions, sections), indent=1) + "\n", "utf-8")
    if options.markdown is not None:
        put_into(options.markdown, to_markdown(conditions, sections))
    return 0


def run_one(name: str, lab: Lab) -> Section:
    """One benchmark. What this machine lacks becomes a row that says so."""
    module = import_module(f"benchmarks.{name}")
    before, start = os.getloadavg()[0], time.monotonic()
    try:
        rows = anyio.run(module.rows, lab)
    except Unavailable as error:
        rows = [missing(name, error)]
    return Section(name, module.TITLE, rows, (before, os.getloadavg()[0]), time.monotonic() - start)


def _settings(options: argparse.Namespace) -> tuple[Settings, str]:
    settings, words = (QUICK, "quick") if options.quick else (FULL, "standard")
    if options.full:
        largest = max(load.blob_bytes for load in settings.loads)
        settings, words = replace(settings, docker_largest_bytes=largest), f"{words} and full"
    return settings, words


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What the SDK costs, as ratios.")
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help=f"of: {', '.join(NAMES)} (default: all)")
    add("--quick", action="store_true", help="a few seconds: to see that it works, not for figures")
    add("--full", action="store_true", help="docker commits the largest load too")
    add("--json", type=Path, metavar="OUT", help="write everything there")
    add("--markdown", type=Path, metavar="OUT", help="write the tables there, between its markers if it has them")
    add("--state", type=Path, metavar="DIR", help="where boxes are kept (default: memory)")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(NAMES))
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}: there are {', '.join(NAMES)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
