"""A provider for tests of what stands on providers: it counts, records, and fails where it is told to.

In memory, the program is a function, as with the mock transports of HTTP clients::

    provider = FakeProvider(handler=lambda command, box: "1 passed\\n" if "pytest" in command else "")

On a real provider, everything is real but the faults::

    provider = FakeProvider(inner=LocalProvider(), faults=[Fault(op="create", error="reply_lost")])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from swe_sdk.errors import CapabilityMissing, SandboxError
from swe_sdk.sandbox.contract import (
    Box,
    Capability,
    ProviderHealth,
    SandboxProvider,
    SandboxSpec,
    Snapshot,
    SupportsBuild,
    SupportsSnapshots,
    Toolchain,
)
from swe_sdk.testing.fake_box import FakeBox
from swe_sdk.testing.faults import Fault, Operation
from swe_sdk.testing.injection import Call, Injector
from swe_sdk.testing.memory import Command, File, Handler, MemoryBox, MemoryProvider, Reply, succeed

__all__ = ["Call", "Command", "FakeBox", "FakeProvider", "Fault", "File", "Handler", "MemoryBox", "Reply"]


class FakeProvider:
    """Delegates to ``inner`` (by default boxes in memory, with ``handler`` as their programs), and injects ``faults``.

    ``capabilities`` hides some of what the inner provider can do.
    """

    def __init__(
        self,
        *,
        handler: Handler = succeed,
        inner: SandboxProvider | None = None,
        faults: Iterable[Fault] = (),
        capabilities: Iterable[Capability] | None = None,
    ) -> None:
        self.inner: SandboxProvider = inner or MemoryProvider(handler)
        self.name = self.inner.name
        self.capabilities: frozenset[Capability] = self.inner.capabilities
        if capabilities is not None:
            self.capabilities &= frozenset(capabilities)
        self.boxes: list[FakeBox] = []
        """All boxes ever made, also those whose making the caller never heard of."""
        self._injector = Injector(faults)

    @property
    def calls(self) -> Counter[Operation]:
        """How often each operation was called."""
        return self._injector.calls

    @property
    def log(self) -> list[Call]:
        """All calls, in the order in which they began."""
        return self._injector.log

    @property
    def live(self) -> tuple[FakeBox, ...]:
        """The boxes that were made and neither closed nor lost: what would leak now."""
        return tuple(box for box in self.boxes if not box.is_gone)

    async def probe(self) -> ProviderHealth:
        """The inner provider's health; after a fault, a provider that does not work."""
        try:
            return await self._injector.call("probe", "", self.inner.probe)
        except SandboxError as error:
            return ProviderHealth(provider=self.name, works=False, reason=error.message, remedy=error.remedy)

    async def create(self, spec: SandboxSpec) -> Box:
        """A box of the inner provider, watched."""

        async def make() -> FakeBox:
            box = self.watch(await self.inner.create(spec), self._injector)
            self.boxes.append(box)
            return box

        return await self._injector.call("create", spec.model_dump_json(), make)

    def watch(self, inner: Box, injector: Injector) -> FakeBox:
        """The box that callers get for one of the inner provider; override it for boxes that misbehave otherwise."""
        return FakeBox(inner, injector, self.capabilities)

    async def aclose(self) -> None:
        """Close the inner provider, without faults."""
        await self.inner.aclose()
        for box in self.boxes:
            box.is_gone = True

    async def snapshot(self, box: Box, *, snapshot_id: str | None = None) -> Snapshot:
        """A snapshot by the inner provider."""
        inner = self._snapshotting()
        if not isinstance(box, FakeBox):
            raise TypeError(f"box {box.id} is not of this provider")

        async def freeze() -> Snapshot:
            return await inner.snapshot(box.inner, snapshot_id=snapshot_id)

        return await self._injector.call("snapshot", box.id, freeze, box=box)

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Delete it in the inner provider."""
        inner = self._snapshotting()
        await self._injector.call("delete_snapshot", snapshot_id, lambda: inner.delete_snapshot(snapshot_id))

    async def snapshots(self) -> list[Snapshot]:
        """Those of the inner provider."""
        return await self._snapshotting().snapshots()

    @property
    def state(self) -> Path:
        """The inner provider's directory for records of built environments."""
        return self._building().state

    async def toolchain(self, python: str | None, tools: Sequence[str]) -> Toolchain:
        """The inner provider's toolchain."""
        return await self._building().toolchain(python, tools)

    def _building(self) -> SupportsBuild:
        if "build" in self.capabilities and isinstance(self.inner, SupportsBuild):
            return self.inner
        # An AttributeError, so that isinstance(provider, SupportsBuild), which reads `state`, says no.
        raise AttributeError(f"provider {self.name} cannot build")

    def _snapshotting(self) -> SupportsSnapshots:
        if "snapshots" in self.capabilities and isinstance(self.inner, SupportsSnapshots):
            return self.inner
        raise CapabilityMissing(f"provider {self.name} cannot snapshot")
