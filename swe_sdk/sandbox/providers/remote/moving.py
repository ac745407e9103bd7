"""Files between this machine and a remote box, which our supervisor opens there.

It follows no link out of the box and waits for no pipe; the system itself moves only files of ours, beside it.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any, BinaryIO

from anyio import to_thread

from swe_sdk.errors import NoSpace, TransferFailed
from swe_sdk.model.ids import new_id
from swe_sdk.sandbox.providers.remote.calls import Calls, Reply
from swe_sdk.sandbox.providers.remote.engine import Upload


async def transfer(calls: Calls, operation: str, path: str, file: BinaryIO, **options: Any) -> dict[str, Any]:
    """See :class:`swe_sdk.sandbox.transfers.Transfer`; ``path`` is absolute."""
    name = new_id("call")
    message = {"op": operation, "path": path, "owner": None, **options}
    if operation == "write":
        message["file"] = calls.path_for(name, "up")
        await calls.upload(Upload(message["file"], Path(f"/proc/self/fd/{file.fileno()}"), 0o600))
    try:
        reply = await calls.make(name, message)
        _require_done(reply, operation, path)
        if operation == "read" and reply.header["ev"] == "ok":
            await _copy(calls, name, reply, file)
        return reply.header
    finally:
        calls.is_done_with(name)


def _require_done(reply: Reply, operation: str, path: str) -> None:
    if reply.header["ev"] != "error":
        return
    if reply.header.get("errno") in (errno.ENOSPC, errno.EDQUOT):
        raise NoSpace(f"no space left to {operation} {path!r}")
    raise TransferFailed(f"cannot {operation} {path!r} in the sandbox: {reply.header['error']}")


async def _copy(calls: Calls, name: str, reply: Reply, file: BinaryIO) -> None:
    """What was read, into a file of this machine."""
    size = reply.header["copied"]
    if size == len(reply.payload):
        file.write(reply.payload)
        return
    copied = 0
    async for piece in calls.download(calls.path_for(name, "data")):
        copied += await to_thread.run_sync(file.write, piece)
    if copied != size:
        raise TransferFailed(f"{copied:,} of {size:,} bytes arrived")
