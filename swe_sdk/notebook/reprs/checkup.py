"""Which sandbox providers work here."""

from __future__ import annotations

from swe_sdk.checkup import Checkup
from swe_sdk.notebook.blocks import Badge, Cell, Facts, Table, View, Word
from swe_sdk.notebook.palette import HEALTH
from swe_sdk.sandbox.contract import ProviderHealth

_HEAD = ("", "provider", "why", "what to do")
_WORKS, _FAILS = HEALTH["healthy"].named("works"), HEALTH["unhealthy"].named("does not work")


def checkup_view(checkup: Checkup) -> View:
    """A row a provider, and where things are kept."""
    title = (Word("Doctor", "strong"), f" {len(checkup.works)} of {len(checkup.providers)} sandbox providers work here")
    places = (("environments", checkup.state_dir), ("results", checkup.results_dir))
    facts = Facts((("python", checkup.python), *((name, Word(path, "code")) for name, path in places)))
    return View(title, (Table(_HEAD, [_row(each) for each in checkup.providers]), facts))


def _row(health: ProviderHealth) -> tuple[Cell, ...]:
    why = health.reason or ", ".join(f"{name}: {value}" for name, value in health.details.items())
    return Badge(_WORKS if health.works else _FAILS), Word(health.provider, "code"), why, health.remedy
