"""What a dead process leaves can be found and removed by another one, and nothing else is.

For providers that keep boxes where they outlive their process (:class:`swe_sdk.sandbox.reaper.SupportsReaping`).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import anyio

from swe_sdk.sandbox.leases import LeaseBook
from swe_sdk.sandbox.reaper import ReapReport, SupportsReaping, reap
from swe_sdk.sandbox.registry import provider_names
from swe_sdk.testing.check import check
from swe_sdk.testing.expect import NotApplicable, require, require_equal
from swe_sdk.testing.lab import Lab

_KILLED = """
import anyio, json, os, signal, sys
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.registry import restore_provider

async def main():
    name, settings, spec = json.loads(sys.argv[1])
    box = await restore_provider(name, settings).create(SandboxSpec.model_validate(spec))
    await box.write("/tmp/f", b"written")
    print(box.id, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main)
"""


@check()
async def a_live_box_is_listed_and_left_alone(lab: Lab) -> None:
    """Also by a reaper that knows no lease of it: then its labels, or a lock, must say that its owner lives."""
    provider = _able(lab)
    box = await lab.box()
    report = await _reap(LeaseBook(lab.scratch / "book"), provider)
    require(report.live > 0, "the box is not among what the provider lists as owned")
    require_equal((await lab.ok(box, "echo lives")).stdout, "lives\n", "what a command in it prints")
    require_equal(await box.status(), "running", "its status")


@check()
async def a_closed_box_is_listed_no_more(lab: Lab) -> None:
    """What is closed leaves nothing that a reaper would have to look at, and removing it again is no error."""
    provider = _able(lab)
    before = await _handles(provider)
    box = await lab.box()
    made = await _handles(provider) - before
    require(made, "a new box is not among what the provider lists as owned")
    await box.close()
    require(not made <= await _handles(provider), "a closed box is still listed as owned")
    for handle in made - await _handles(provider):
        await provider.remove(handle)


@check(limit_s=180)
async def a_killed_process_leaves_boxes_that_its_leases_lead_to(lab: Lab) -> None:
    """Machines that grade for weeks fill up with boxes otherwise; a dry run names them and changes nothing."""
    await _is_reaped(lab, with_leases=True)


@check(limit_s=180)
async def a_killed_process_leaves_boxes_that_are_found_without_leases(lab: Lab) -> None:
    """Records can be lost with a disk, or lie where this process does not look: labels remain."""
    await _is_reaped(lab, with_leases=False)


async def _is_reaped(lab: Lab, *, with_leases: bool) -> None:
    provider, mine = _able(lab), await lab.box()
    before, state = await _handles(provider), lab.scratch / "state"
    await _make_a_box_and_die(lab, provider, state)
    book = LeaseBook(state / "leases")
    if not with_leases:
        shutil.rmtree(book.directory, ignore_errors=True)
    named = (await _reap(book, provider, dry_run=True)).of("would_remove")
    due = {item.handle for item in named if item.handle is not None} - before
    require(due, "the box of a killed process is not found")
    require(due <= await _handles(provider), "a dry run has removed something")
    await _reap(book, provider)
    left = due & await _handles(provider)
    require(not left, f"still there: {left}")
    require_equal(book.leases(), [], "the leases")
    require_equal((await lab.ok(mine, "echo lives")).stdout, "lives\n", "what a live process's box prints")


async def _make_a_box_and_die(lab: Lab, provider: SupportsReaping, state: Path) -> None:
    if provider.name not in provider_names():
        raise NotApplicable("another process can only make the providers that are built in")
    what = json.dumps([provider.name, dict(provider.settings), lab.settings.spec.model_dump(mode="json")])
    environment = {**os.environ, "SWE_SDK_STATE": str(state)}
    done = await anyio.run_process([sys.executable, "-c", _KILLED, what], check=False, env=environment)
    require(done.returncode == -signal.SIGKILL, f"another process made no box: {done.stderr.decode()[-2000:]}")


def _able(lab: Lab) -> SupportsReaping:
    if not isinstance(lab.provider, SupportsReaping):
        raise NotApplicable("it has nothing to reap: it is no SupportsReaping")
    return lab.provider


async def _handles(provider: SupportsReaping) -> set[str]:
    return {box.handle for box in await provider.owned()}


async def _reap(book: LeaseBook, provider: SupportsReaping, *, dry_run: bool = False) -> ReapReport:
    report = await reap(book, [provider], only=provider.name, dry_run=dry_run)
    require(not report.unreachable, f"its engine does not answer: {report.unreachable}")
    require(not report.of("failed"), f"it could not remove {report.of('failed')}")
    return report
