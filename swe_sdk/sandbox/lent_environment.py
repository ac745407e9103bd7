"""The environment of boxes that are lent to agents: prepared, and with nothing in it that an agent must not see.

What we have built holds nothing of the kind. An image may: hidden tests, the commits of the fix in its repository. They
are removed, and that the repository is clean is proved, before an agent gets in; where the provider can freeze boxes
once for an image, else in each of its boxes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio import to_thread

from swe_sdk.errors import CreateFailed, InputError
from swe_sdk.files import write_atomic
from swe_sdk.model.environment import Environment, ImageEnvironment
from swe_sdk.model.ids import content_key
from swe_sdk.model.record import Record
from swe_sdk.sandbox import history
from swe_sdk.sandbox.base import pin_base
from swe_sdk.sandbox.build import stop_everything
from swe_sdk.sandbox.contract import Box, SandboxProvider, SupportsBuild, SupportsSnapshots
from swe_sdk.sandbox.locks import file_lock
from swe_sdk.sandbox.prepared import PreparedEnvironment
from swe_sdk.sandbox.stat_cache import refresh_index
from swe_sdk.sandbox.tree import differences

_VERSION = 1
"""Changes whenever the same image would be made ready differently."""
_KEPT = 256
_CLOSE_S = 60.0


class LentEnvironment(Record):
    """What boxes of agents are made from."""

    prepared: PreparedEnvironment
    """With its base commit by id, where it is known before there is a box."""
    before: bytes = b""
    """What differs from the base commit before anybody works in such a box; see ``take_patch(before=...)``."""
    is_ready: bool = True
    """Whether its boxes can be handed out as they are; else :func:`make_ready` has to go over each of them."""


class LentEnvironments:
    """Makes them, and remembers those of this process. Safe to use from many tasks of one event loop."""

    def __init__(self, *, scrub: bool = True) -> None:
        self._scrub = scrub
        self._known: OrderedDict[str, LentEnvironment] = OrderedDict()
        self._locks: dict[str, anyio.Lock] = {}

    async def get(
        self, provider: SandboxProvider, environment: Environment, prepared: PreparedEnvironment
    ) -> LentEnvironment:
        """The lent environment of a prepared one; at most one at a time is made for each.

        Raises ``BuildFailed`` where an image's history cannot be scrubbed or that cannot be proved, ``InputError``
        where it has no repository, ``ResetFailed``, and what the sandbox raises.
        """
        if not isinstance(environment, ImageEnvironment):
            return LentEnvironment(prepared=prepared)
        if "snapshots" not in provider.capabilities or not isinstance(provider, SupportsSnapshots):
            return LentEnvironment(prepared=prepared, is_ready=False)
        key = content_key(["lent", _VERSION, provider.name, prepared.key, environment.hidden, self._scrub])
        async with self._locks.setdefault(key, anyio.Lock()):
            if key not in self._known:
                async with _record(provider, key) as record:
                    found = await _load(provider, record)
                    self._known[key] = found or await self._make(provider, provider, environment, prepared, record)
            self._known.move_to_end(key)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
            return self._known[key]

    def forget(self, lent: LentEnvironment) -> None:
        """It turned out not to be there any more."""
        self._known = OrderedDict((key, known) for key, known in self._known.items() if known is not lent)

    async def make_ready(self, box: Box, environment: Environment, prepared: PreparedEnvironment) -> LentEnvironment:
        """Remove from a new box whatever an agent must not see; returns what is known of it then.

        Raises as :meth:`get` does.
        """
        if not isinstance(environment, ImageEnvironment):
            return LentEnvironment(prepared=prepared)
        await hide_tests(box, environment.hidden)
        pinned = await pin_base(box, prepared)
        if pinned.base_is_open or not pinned.base_commit:
            raise InputError(f"the image {environment.image} has no git repository at {environment.workdir}")
        if self._scrub:
            await history.scrub(box, pinned.workdir, pinned.base_commit)
        before = await differences(box, workdir=pinned.workdir, base_commit=pinned.base_commit)
        return LentEnvironment(prepared=pinned.model_copy(update={"reset_to": None}), before=before)

    async def _make(
        self,
        provider: SandboxProvider,
        snapshots: SupportsSnapshots,
        environment: ImageEnvironment,
        prepared: PreparedEnvironment,
        record: Path | None,
    ) -> LentEnvironment:
        async with _new_box(provider, prepared) as box:
            ready = await self.make_ready(box, environment, prepared)
            await stop_everything(box)
            snapshot = await snapshots.snapshot(box)
        lent = ready.model_copy(update={"prepared": ready.prepared.model_copy(update={"snapshot": snapshot.id})})
        if record is not None:
            await to_thread.run_sync(write_atomic, record, lent.model_dump_json().encode())
        return lent


async def open_lent_box(
    environments: LentEnvironments, box: Box, environment: Environment, lent: LentEnvironment
) -> LentEnvironment:
    """Go over a new box of ``lent``, so that it can be handed out; returns what is known of it then.

    Raises as :meth:`LentEnvironments.get` does.
    """
    if not lent.is_ready:
        return await environments.make_ready(box, environment, lent.prepared)
    if isinstance(environment, ImageEnvironment):
        await refresh_index(box, lent.prepared.workdir)
    return lent


async def hide_tests(box: Box, hidden: tuple[str, ...]) -> None:
    """Remove what an image has of the hidden tests; ``CreateFailed`` where that cannot be done."""
    if hidden:
        removed = await box.exec(["rm", "-rf", "--", *hidden], cwd="/", timeout_s=60.0)
        if not removed.ok:
            raise CreateFailed(f"the hidden tests in the image could not be removed: {removed.stderr[-300:]}")


@asynccontextmanager
async def _new_box(provider: SandboxProvider, prepared: PreparedEnvironment) -> AsyncIterator[Box]:
    box = await provider.create(prepared.spec())
    try:
        yield box
    finally:
        with anyio.move_on_after(_CLOSE_S, shield=True):
            await box.close()


@asynccontextmanager
async def _record(provider: SandboxProvider, key: str) -> AsyncIterator[Path | None]:
    """Where it is noted for other processes, locked; None where the provider has no place for that."""
    if not isinstance(provider, SupportsBuild):
        yield None
        return
    folder = provider.state / "environments"
    async with file_lock(folder / f"{key}.lock"):
        yield folder / f"{key}.lent.json"


async def _load(provider: SupportsSnapshots, record: Path | None) -> LentEnvironment | None:
    """What another process has made, if its snapshot is still there."""
    try:
        if record is None:
            return None
        lent = LentEnvironment.model_validate_json(await to_thread.run_sync(record.read_bytes))
    except (OSError, ValueError):
        return None
    known = {snapshot.id for snapshot in await provider.snapshots()}
    return lent if lent.prepared.snapshot in known else None
