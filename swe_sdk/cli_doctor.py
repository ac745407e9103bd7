"""``swe-sdk doctor``: which sandbox providers work on this machine."""

from __future__ import annotations

import argparse
import json
import sys

import anyio

from swe_sdk import checkup
from swe_sdk.cli_show import console, make_table, plain


def doctor(arguments: argparse.Namespace) -> int:
    """Try every provider, and print what was found; always 0."""
    found = anyio.run(checkup.doctor)
    if arguments.json:
        sys.stdout.write(json.dumps(found.to_dict(), indent=2) + "\n")
    else:
        _show(found)
    return 0


def _show(found: checkup.Checkup) -> None:
    from rich.text import Text

    screen = console()
    table = make_table("provider", "works", "why", "what to do")
    for check in found.providers:
        works = Text("yes", style="bold green") if check.works else Text("no", style="red")
        why = check.reason or ", ".join(f"{name}: {value}" for name, value in check.details.items())
        table.add_row(plain(check.provider), works, plain(why), plain(check.remedy))
    screen.print(table)
    lines = f"\nenvironments: {found.state_dir}\nresults: {found.results_dir}"
    screen.print(lines, markup=False, soft_wrap=True)
