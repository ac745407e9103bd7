"""A live sandbox: what is known of it without asking it anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swe_sdk.errors import SandboxClosed
from swe_sdk.notebook.amounts import moment
from swe_sdk.notebook.blocks import Badge, Cell, Facts, View, Word
from swe_sdk.notebook.palette import STATUS
from swe_sdk.sandbox.contract import Limits, SandboxSpec, Snapshot

if TYPE_CHECKING:
    from swe_sdk._sandbox import Sandbox
    from swe_sdk.sandbox.sandbox import Sandbox as AsyncSandbox


def sandbox_view(sandbox: Sandbox | AsyncSandbox) -> View:
    """Where it runs and what it was made from. Values of variables are not shown."""
    try:
        box = sandbox.box
    except SandboxClosed as closed:
        state = Badge(STATUS["queued"], closed.message.removeprefix("the sandbox is "))
        return View((Word("Sandbox", "strong"), " ", state, f" provider {sandbox.provider}"))
    title = (Word("Sandbox", "strong"), " ", Word(box.id, "code"), " ", Badge(STATUS["running"], "open"))
    facts = (("provider", sandbox.provider), ("workdir", Word(sandbox.workdir, "code")))
    base: tuple[str, Cell] = ("base", Word(sandbox.base_commit[:12], "code"))
    return View((*title, f" on {sandbox.provider}"), (Facts((*facts[1:], base, *_made_of(box.spec))),))


def _made_of(spec: SandboxSpec) -> tuple[tuple[str, Cell], ...]:
    return (
        ("image", spec.image and Word(spec.image, "code")),
        ("snapshot", spec.snapshot and Word(spec.snapshot, "code")),
        ("network", spec.network),
        ("limits", _limits(spec.limits)),
        ("variables", ", ".join(spec.env)),
    )


def _limits(limits: Limits) -> str:
    return ", ".join(f"{name} {value}" for name, value in limits.model_dump(exclude_none=True).items())


def snapshot_view(snapshot: Snapshot) -> View:
    """Its id, and where it lies."""
    facts = (("provider", snapshot.provider), ("taken", moment(snapshot.created_at)))
    return View((Word("Snapshot", "strong"), " ", Word(snapshot.id, "code")), (Facts(facts),))
