"""The views, a file each. A view is known once it is named here."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec

from swe_sdk.dashboard.view import View

_MODULES = ("runs", "rollouts", "rollout", "compare", "masks", "budgets", "checkpoints", "retention", "sandboxes")
"""In the order of the menu."""


@cache
def views() -> dict[str, View]:
    """All views by their name."""
    found: list[View] = [
        import_module(f"{__name__}.{name}").VIEW for name in _MODULES if find_spec(f"{__name__}.{name}") is not None
    ]
    return {view.name: view for view in found}
