"""Which sandbox providers work here."""

from __future__ import annotations

from swe_sdk.checkup import Checkup
from swe_sdk.notebook.blocks import Badge, Cell, Facts, Note, Table, View, Word
from swe_sdk.notebook.palette import HEALTH
from swe_sdk.sandbox.contract import ProviderHealth

_HEAD = ("", "provider", "what it found")
_WORKS, _FAILS = HEALTH["healthy"].named("works"), HEALTH["unhealthy"]


def checkup_view(checkup: Checkup) -> View:
    """A row a provider that works, what to do about each of the others, and where things are kept."""
    title = (Word("Doctor", "strong"), f" {len(checkup.works)} of {len(checkup.providers)} sandbox providers work here")
    places = (("environments", checkup.state_dir), ("results", checkup.results_dir))
    facts = Facts((("python", checkup.python), *((name, Word(path, "code")) for name, path in places)))
    works = Table(_HEAD, [_row(each) for each in checkup.providers if each.works])
    return View(title, (works, *(_note(each) for each in checkup.providers if not each.works), facts))


def _row(health: ProviderHealth) -> tuple[Cell, ...]:
    found = ", ".join(f"{name}: {value}" for name, value in health.details.items())
    return Badge(_WORKS), Word(health.provider, "code"), found


def _note(health: ProviderHealth) -> Note:
    return Note(_FAILS.named(f"{health.provider} does not work"), health.reason, health.remedy)
