"""Local boxes for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from swe_sdk.sandbox.contract import Box, SandboxProvider, SandboxSpec
from swe_sdk.sandbox.providers.local.box import LocalBox
from swe_sdk.sandbox.providers.local.provider import LocalProvider

SPEC = SandboxSpec(workdir="/tmp")


async def create(provider: LocalProvider, spec: SandboxSpec = SPEC) -> LocalBox:
    """A new box, which the caller closes."""
    box = await provider.create(spec)
    assert isinstance(box, LocalBox)
    return box


B = TypeVar("B", bound=Box)


@asynccontextmanager
async def made_for_a_test(
    provider: SandboxProvider, kind: type[B], **common: object
) -> AsyncIterator[Callable[..., Awaitable[B]]]:
    """Makes boxes from the fields of their spec, ``common`` where they name no image, and closes them at the end."""
    boxes: list[B] = []

    async def make(**spec: object) -> B:
        box = await provider.create(SandboxSpec.model_validate(spec if "image" in spec else {**common, **spec}))
        assert isinstance(box, kind)
        boxes.append(box)
        return box

    yield make
    for box in boxes:
        await box.close()


async def ok(box: LocalBox, command: str) -> str:
    """The output of a command that must succeed."""
    result = await box.exec(command, timeout_s=30)
    assert result.ok, (result.summary, result.stderr)
    return result.stdout


async def output(box: Box, command: str) -> str:
    """What a command that must succeed prints on both streams, without the white space around it."""
    result = await box.exec(command, merge_stderr=True, timeout_s=60)
    assert result.ok, (result.summary, result.stdout)
    return result.stdout.strip()


def init_of(box: LocalBox) -> int:
    """The pid, on the host, of a box's first process."""
    fields = Path(f"/proc/self/fdinfo/{box._pidfd}").read_text().split()
    return int(fields[fields.index("Pid:") + 1])
