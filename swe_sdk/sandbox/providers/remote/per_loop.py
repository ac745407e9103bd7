"""Connections belong to the event loop that made them, and a provider serves several."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Generic, Protocol, TypeVar

from anyio.lowlevel import RunVar


class Closes(Protocol):
    """Holds connections."""

    async def aclose(self) -> None:
        """Give them back."""


T = TypeVar("T", bound=Closes)


class PerLoop(Generic[T]):
    """One for each event loop that asks. It is closed with its loop, if nobody closes it before."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._held: RunVar[tuple[T, AsyncGenerator[T]] | None] = RunVar("swe_sdk connections of a loop", None)

    async def get(self) -> T:
        """That of this loop."""
        held = self._held.get()
        if held is None:
            keeper = _kept(self._make())
            held = await anext(keeper), keeper
            self._held.set(held)
        return held[0]

    async def aclose(self) -> None:
        """Close that of this loop. Another one may be made."""
        held = self._held.get()
        self._held.set(None)
        if held is not None:
            await held[1].aclose()


async def _kept(client: T) -> AsyncGenerator[T]:
    """A loop that ends closes the generators that were begun in it, and that runs what is last here."""
    try:
        yield client
    finally:
        await client.aclose()
