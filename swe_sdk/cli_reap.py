"""``swe-sdk reap``: remove the boxes that dead programs have left."""

from __future__ import annotations

import argparse
import sys

import anyio

from swe_sdk.cli_show import console, make_table, plain
from swe_sdk.errors import CapabilityMissing
from swe_sdk.sandbox.leases import LeaseBook
from swe_sdk.sandbox.reaper import ReapReport, SupportsReaping, reap
from swe_sdk.sandbox.registry import named_provider, provider_names


def reap_boxes(arguments: argparse.Namespace) -> int:
    """Remove or, with ``--dry-run``, list; 1 where something could not be removed."""
    report = anyio.run(_reap, arguments.provider, arguments.dry_run)
    if arguments.json:
        sys.stdout.write(report.model_dump_json(indent=2) + "\n")
    else:
        _show(report)
    return 1 if report.of("failed") else 0


async def _reap(provider: str | None, dry_run: bool) -> ReapReport:
    providers = [named_provider(name) for name in ((provider,) if provider else provider_names())]
    able = [each for each in providers if isinstance(each, SupportsReaping)]
    if provider and not able:
        raise CapabilityMissing(f"the provider {provider!r} cannot reap")
    try:
        return await reap(LeaseBook(), able, only=provider, dry_run=dry_run)
    finally:
        for each in providers:
            await each.aclose()


def _show(report: ReapReport) -> None:
    screen = console()
    if report.items:
        table = make_table("provider", "box", "what", "why")
        for item in report.items:
            name = item.handle or item.lease or "?"
            table.add_row(plain(item.provider), plain(name), plain(item.action.replace("_", " ")), plain(item.reason))
        screen.print(table)
    for provider, reason in report.unreachable.items():
        screen.print(f"{provider} could not be asked: {reason}", markup=False, soft_wrap=True)
    screen.print(report.summary, markup=False, soft_wrap=True)
