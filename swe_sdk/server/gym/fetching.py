"""Files out of a sandbox, onto this machine's disk, up to a size: how large one is, is the choice of its programs."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio

from swe_sdk.alongside import alongside
from swe_sdk.errors import TransferFailed
from swe_sdk.sandbox.contract import Box

_LOOK_S = 0.02


@asynccontextmanager
async def fetched(box: Box, path: str, most_bytes: int) -> AsyncIterator[Path]:
    """A copy of a file of the sandbox, while the block runs. ``TransferFailed`` where it is larger, as for any other
    reason; what was copied until that was found out is about ``most_bytes``."""
    with tempfile.TemporaryDirectory(prefix="swe_sdk-loan-") as folder:
        local = Path(folder) / "file"
        with anyio.CancelScope() as copying:
            async with alongside() as tasks:
                tasks.start_soon(_stop_beyond, most_bytes, Path(folder), copying)
                await box.download(path, local)
        if copying.cancelled_caught or local.stat().st_size > most_bytes:
            raise TransferFailed(
                f"{path} is larger than {most_bytes:,} bytes", remedy="take a part of it, by a command"
            )
        yield local


async def _stop_beyond(most_bytes: int, folder: Path, copying: anyio.CancelScope) -> None:
    while True:
        with suppress(FileNotFoundError):  # what is complete gets its name just now
            if sum(each.stat().st_size for each in folder.iterdir()) > most_bytes:
                copying.cancel()
                return
        await anyio.sleep(_LOOK_S)
