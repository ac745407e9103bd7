"""Which sandbox providers work on this machine."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import anyio

from swe_sdk import paths
from swe_sdk.errors import UnknownProvider
from swe_sdk.model.columns import Column, frame_of
from swe_sdk.model.record import Record
from swe_sdk.sandbox.contract import ProviderHealth
from swe_sdk.sandbox.registry import named_provider, provider_names
from swe_sdk.shown import Shown

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    Column("provider", "text", "its name; the index"),
    Column("works", "bool", "whether a box was made and a command run in it"),
    Column("reason", "text", "why not"),
    Column("remedy", "text", "what to do about it"),
)


class Checkup(Shown, Record):
    """What :func:`swe_sdk.doctor` has found: each provider by name, and where things are kept."""

    providers: tuple[ProviderHealth, ...]
    python: str
    """Version of the interpreter."""
    state_dir: str
    """Environments and snapshots are kept there."""
    results_dir: str

    @property
    def works(self) -> tuple[str, ...]:
        """Names of the providers that do."""
        return tuple(each.provider for each in self.providers if each.works)

    def __getitem__(self, name: str) -> ProviderHealth:
        """One provider by its name; ``UnknownProvider`` where there is none."""
        for each in self.providers:
            if each.provider == name:
                return each
        raise UnknownProvider(name, (each.provider for each in self.providers))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as ``swe-sdk doctor --json`` prints it."""
        return self.model_dump(mode="json")

    def to_frame(self) -> pd.DataFrame:
        """A row a provider."""
        return frame_of(_COLUMNS, (each.model_dump() for each in self.providers), index="provider")

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for each in self.providers:
            yield each.provider, "works" if each.works else each.reason


async def doctor() -> Checkup:
    """Try every sandbox provider for real, and say which of them work here; why not, and what to do, of the others.

    All are tried at once, which takes a few seconds; it makes a box of each and removes it, and raises nothing for what
    it finds.
    """
    providers = {name: named_provider(name) for name in provider_names()}
    found: dict[str, ProviderHealth] = {}

    async def probe(name: str) -> None:
        found[name] = await providers[name].probe()

    async with anyio.create_task_group() as tasks:
        for name in providers:
            tasks.start_soon(probe, name)
    return Checkup(
        providers=tuple(found[name] for name in providers),
        python=platform.python_version(),
        state_dir=str(paths.state_dir()),
        results_dir=str(paths.results_dir()),
    )
