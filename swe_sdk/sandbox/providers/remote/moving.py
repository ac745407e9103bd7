"""Files between this machine and a remote box, which our supervisor opens there.

It follows no link out of the box and waits for no pipe; the system itself moves only files of ours, beside it.
"""

from __future__ import annotations

import errno
from contextlib import aclosing
from pathlib import Path
from typing import Any, BinaryIO

import anyio
from anyio import to_thread

from swe_sdk.errors import NoSpace, SandboxLost, TransferFailed
from swe_sdk.model.ids import new_id
from swe_sdk.sandbox.providers.remote.calls import TRANSFER_S, Calls
from swe_sdk.sandbox.providers.remote.engine import Upload
from swe_sdk.sandbox.providers.remote.replies import Copied, Failure, Larger, Reply, not_ours


async def transfer(calls: Calls, operation: str, path: str, file: BinaryIO, **options: Any) -> dict[str, Any]:
    """See :class:`swe_sdk.sandbox.transfers.Transfer`; ``path`` is absolute."""
    name = new_id("call")
    message = {"op": operation, "path": path, "owner": None, **options}
    try:
        with anyio.fail_after(TRANSFER_S):
            if operation == "write":
                message["file"] = calls.path_for(name, "up")
                await calls.upload(Upload(message["file"], Path(f"/proc/self/fd/{file.fileno()}"), 0o600))
            reply = await calls.make(name, message)
            _require_done(reply, operation, path)
            if operation == "read":
                await _take(calls, name, reply, file, room=options["room"])
            return reply.header
    except TimeoutError:
        raise SandboxLost(f"sandbox {calls.sandbox} did not {operation} {path!r} within {TRANSFER_S:.0f} s") from None
    finally:
        calls.is_done_with(name)


def _require_done(reply: Reply, operation: str, path: str) -> None:
    if reply.event != "error":
        return
    failure = reply.read(Failure)
    if failure.errno in (errno.ENOSPC, errno.EDQUOT):
        raise NoSpace(f"no space left to {operation} {path!r}")
    raise TransferFailed(f"cannot {operation} {path!r} in the sandbox: {failure.error}")


async def _take(calls: Calls, name: str, reply: Reply, file: BinaryIO, *, room: int) -> None:
    """What was read, into a file of this machine that has so much room; nothing where it was larger than that."""
    if reply.event == "larger":
        reply.read(Larger)
        return
    size = reply.read(Copied).copied
    if size > room:
        raise not_ours()
    if size == len(reply.payload):
        file.write(reply.payload)
    else:
        await _copy(calls, calls.path_for(name, "data"), size, file)


async def _copy(calls: Calls, path: str, size: int, file: BinaryIO) -> None:
    copied = 0
    async with aclosing(calls.download(path)) as pieces:
        async for piece in pieces:
            copied += len(piece)
            if copied > size:
                raise not_ours()
            await to_thread.run_sync(file.write, piece)
    if copied != size:
        raise TransferFailed(f"{copied:,} of {size:,} bytes arrived")
