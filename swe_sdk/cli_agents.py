"""``swe-sdk agents``: which agents there are, and their harnesses."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from swe_sdk.agents.harnesses import HARNESSES, HarnessStatus, ensure_harness, harness_status
from swe_sdk.agents.registry import agent_class, agent_names
from swe_sdk.cli_show import console, make_table, plain


def agents(arguments: argparse.Namespace) -> int:
    """List them, or install the harnesses that are named; 0, or the error of an installation."""
    if arguments.action == "install":
        for name in arguments.names or HARNESSES:
            path = ensure_harness(name, on_progress=_say)
            sys.stdout.write(f"{name}: {path}\n")
        return 0
    harnesses = {status.name: status for status in harness_status()}
    rows = [_row(name, harnesses.get(name)) for name in agent_names() if name in (arguments.names or agent_names())]
    if arguments.json:
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
    else:
        _show(rows)
    return 0


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")


def _row(name: str, harness: HarnessStatus | None) -> dict[str, Any]:
    about = {
        "name": name,
        "version": harness.version if harness else None,
        "tier": str(getattr(agent_class(name), "tier", "")),
        "is_ready": harness is None or harness.is_ready,
    }
    return {**about, "reason": harness.reason if harness else "", "remedy": harness.remedy if harness else ""}


def _show(rows: list[dict[str, Any]]) -> None:
    from rich.text import Text

    table = make_table("agent", "harness", "goes on", "ready", "why", "what to do")
    for row in rows:
        ready = Text("yes", style="bold green") if row["is_ready"] else Text("no", style="red")
        cells = [plain(str(row[name] or "")) for name in ("name", "version", "tier", "reason", "remedy")]
        table.add_row(*cells[:3], ready, *cells[3:])
    console().print(table)
