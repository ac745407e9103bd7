"""``swe-sdk doctor``: which sandbox providers work on this machine."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from typing import Any

import anyio

from swe_sdk import paths
from swe_sdk.cli_show import console, make_table, plain
from swe_sdk.sandbox.contract import ProviderHealth
from swe_sdk.sandbox.registry import named_provider, provider_names

_PLANNED = ("apptainer", "docker", "opensandbox")


def doctor(arguments: argparse.Namespace) -> int:
    """Try every provider, and print what was found; always 0."""
    checks = anyio.run(_check_all)
    if arguments.json:
        sys.stdout.write(json.dumps(_report(checks), indent=2) + "\n")
    else:
        _show(checks)
    return 0


async def _check_all() -> list[ProviderHealth]:
    checks = [await named_provider(name).probe() for name in provider_names()]
    return [*checks, *(_not_there(name) for name in _PLANNED if name not in provider_names())]


def _not_there(name: str) -> ProviderHealth:
    reason = f"this version of swe_sdk has no {name} provider yet"
    return ProviderHealth(provider=name, works=False, reason=reason, remedy="use --provider local")


def _report(checks: list[ProviderHealth]) -> dict[str, Any]:
    return {
        "providers": [check.model_dump(mode="json") for check in checks],
        "python": platform.python_version(),
        "state_dir": str(paths.state_dir()),
        "results_dir": str(paths.results_dir()),
    }


def _show(checks: list[ProviderHealth]) -> None:
    from rich.text import Text

    screen = console()
    table = make_table("provider", "works", "why", "what to do")
    for check in checks:
        works = Text("yes", style="bold green") if check.works else Text("no", style="red")
        why = check.reason or ", ".join(f"{name}: {value}" for name, value in check.details.items())
        table.add_row(plain(check.provider), works, plain(why), plain(check.remedy))
    screen.print(table)
    lines = f"\nenvironments: {paths.state_dir()}\nresults: {paths.results_dir()}"
    screen.print(lines, markup=False, soft_wrap=True)
