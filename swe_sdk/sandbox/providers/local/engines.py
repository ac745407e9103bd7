"""Which program makes the boxes of the local provider on this machine."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

from swe_sdk.errors import InputError, ProviderUnavailable, SweError
from swe_sdk.sandbox.providers.local.bubblewrap import DIFFERENCES, BubblewrapZygote, find_bubblewrap
from swe_sdk.sandbox.providers.local.zygote import Born, UnpackLimits, Zygote

Engine = Literal["auto", "userns", "bwrap"]
"""``userns``: this program itself, in user namespaces. ``bwrap``: bubblewrap, see ``bubblewrap``. ``auto``: the first
of them that works, tried in this order."""
_ENGINES: tuple[Engine, ...] = ("auto", "userns", "bwrap")


def chosen_engine(engine: Engine | None) -> Engine:
    """``engine``, else ``$SWE_SDK_LOCAL_ENGINE``, else "auto"; ``InputError`` for one that there is not."""
    wanted = engine or os.environ.get("SWE_SDK_LOCAL_ENGINE") or "auto"
    for name in _ENGINES:
        if name == wanted:
            return name
    raise InputError(f"there is no engine {wanted!r}", remedy=f"one of {', '.join(_ENGINES)}")


class AutoZygote(Zygote):
    """The first of the two that can make a box. The first box that is wanted decides, for as long as this lives.

    For ordinary users alone: what keeps them from making namespaces keeps no root from it, and where root is kept,
    bubblewrap is as well.
    """

    def __init__(self, userns: Zygote, bwrap: BubblewrapZygote, make_a_box: Callable[[], Awaitable[object]]) -> None:
        super().__init__(Path(os.devnull), userns.cgroup)
        self._userns = userns
        self._bwrap = bwrap
        self._make_a_box = make_a_box
        self._chosen: Zygote | None = None
        self.refused: SweError | None = None
        """Why it is not the first."""

    @property
    def chosen(self) -> Zygote | None:
        """What makes the boxes; None until there has been one."""
        return self._chosen

    async def create(self, message: dict[str, Any]) -> Born:
        """By the one that works; where none does, the error of the first, and what the second adds to it."""
        if self._chosen is not None:
            return await self._chosen.create(message)
        try:
            made = await self._userns.create(message)
        except ProviderUnavailable as refused:  # not what is wrong with this one box
            made = await self._create_by_bubblewrap(message, refused)
        else:
            self._chosen = self._userns
        return made

    async def _create_by_bubblewrap(self, message: dict[str, Any], refused: ProviderUnavailable) -> Born:
        try:
            made = await self._bwrap.create(message)
        except SweError as also:
            remedy = "; or ".join(filter(None, (refused.remedy, also.remedy)))
            reason = f"{refused.message}; nor can bubblewrap: {also.message}"
            raise ProviderUnavailable(reason, remedy=remedy) from refused
        self._chosen, self.refused = self._bwrap, refused
        return made

    async def _settled(self) -> Zygote:
        if self._chosen is None:
            await self._make_a_box()
        return self._chosen or self._userns

    async def merge(self, state: Path, layers: Any, target: str, id_map: str | None) -> None:
        """By the one that was chosen."""
        await (await self._settled()).merge(state, layers, target, id_map)

    async def unpack(self, blob: int, target: Path, limits: UnpackLimits, id_map: str | None) -> None:
        """By the one that was chosen."""
        await (await self._settled()).unpack(blob, target, limits, id_map)

    async def require_unpacking(self) -> None:
        """By the one that was chosen."""
        await (await self._settled()).require_unpacking()

    @property
    def max_layers(self) -> int:
        """Of the one that was chosen."""
        return (self._chosen or self._userns).max_layers

    def close(self) -> None:
        """End both."""
        self._userns.close()
        self._bwrap.close()

    def forget(self) -> None:
        """Let go of both."""
        self._userns.forget()
        self._bwrap.forget()


def engine_details(zygote: Zygote) -> dict[str, str]:
    """What ``doctor`` says of the engines: which is used, and why the other is not."""
    chosen = zygote.chosen if isinstance(zygote, AutoZygote) else zygote
    if isinstance(chosen, BubblewrapZygote):
        program = find_bubblewrap()
        refused = zygote.refused if isinstance(zygote, AutoZygote) else None
        return {
            "engine": f"bwrap: {program.path}, version {program.version}",
            "engine userns": refused.message if refused else "not asked for",
            "engine bwrap": DIFFERENCES,
        }
    tried = isinstance(zygote, AutoZygote)
    return {"engine": "userns", "engine bwrap": "not needed" if tried else "not asked for"}
