"""The first box of an image: what a box needs and an image may lack or have otherwise, as a layer on top of it.

It is made in a box and by a box, so that nothing that the image has put in the way leads anywhere else: places for
/proc, /dev and /tmp, which no link may take; the names of this machine; the agent as a user. There it is seen, too,
which shell runs.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from swe_sdk.errors import CreateFailed, SandboxLost, TransferFailed
from swe_sdk.model.ids import new_id
from swe_sdk.sandbox.boxside.root import AGENT_ID
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.local.box import LocalBox
from swe_sdk.sandbox.providers.local.layers import UPPER
from swe_sdk.sandbox.providers.local.records import ImageFacts, SnapshotRecord
from swe_sdk.sandbox.providers.local.skeleton import HOME, NAMES

if TYPE_CHECKING:
    from swe_sdk.sandbox.providers.local.provider import LocalProvider

_PLACES = {"proc": 0o755, "dev": 0o755, "tmp": 0o1777}
_SHELLS = ("/bin/bash", "/bin/sh")
_TIMEOUT_S = 20.0


async def furnish(provider: LocalProvider, layers: tuple[str, ...], image_id: str, facts: ImageFacts) -> SnapshotRecord:
    """Put a layer of ours on top of an image's ``layers``, and record it all as ``image_id``.

    Raises ``CreateFailed`` where no shell runs in it, or another ``SandboxError``.
    """
    box = LocalBox(provider, SandboxSpec(workdir=HOME), layers, new_id("box"))
    box.stand_on(facts)
    box.path = await to_thread.run_sync(provider.store.new_box, box.id, layers)
    provider.boxes[box.id] = box
    try:
        await to_thread.run_sync(_make_places, provider, box.path / UPPER)
        await provider.start_box(box)
        facts = facts._replace(shell=await _find_shell(box, facts.name))
        await _write_names(box)
        await _add_agent(box, facts.shell)
        with anyio.CancelScope(shield=True):
            await box.stop()
            record = await to_thread.run_sync(_publish, provider, box, image_id, facts)
        return record
    finally:
        await box.close()


def _make_places(provider: LocalProvider, upper: Path) -> None:
    for name, mode in _PLACES.items():
        (upper / name).mkdir()
        (upper / name).chmod(mode)
        provider.identity.own(upper / name)


def _publish(provider: LocalProvider, box: LocalBox, image_id: str, facts: ImageFacts) -> SnapshotRecord:
    box.chain, box.named_by = provider.store.seal(box.path, box.chain), image_id
    return provider.store.publish(image_id, box.chain, facts)


async def _find_shell(box: LocalBox, name: str) -> str:
    for shell in _SHELLS:
        result = await box.exec([shell, "-c", "exit 0"], cwd="/", timeout_s=_TIMEOUT_S)
        if result.status == "lost":
            raise SandboxLost(f"the first box of the image {name} died")
        if result.status != "exited":
            raise CreateFailed(f"{shell} in the first box of the image {name} {result.summary}", remedy="try again")
        if result.ok:
            return shell
    raise CreateFailed(
        f"no shell runs in the image {name}: neither {' nor '.join(_SHELLS)}",
        remedy="commands need one; use an image that has a POSIX shell",
    )


async def _write_names(box: LocalBox) -> None:
    for path, text in NAMES.items():
        try:
            await box.write(f"/{path}", text.encode())
        except TransferFailed:  # a link to nowhere is in its place, or no file
            await box.exec(["rm", "-rf", f"/{path}"], cwd="/", timeout_s=_TIMEOUT_S)
            with suppress(TransferFailed):
                await box.write(f"/{path}", text.encode())


async def _add_agent(box: LocalBox, shell: str) -> None:
    """Give the user as whom programs run a name, unless the image has one for that id."""
    await _add_line(box, "/etc/passwd", f"agent:x:{AGENT_ID}:{AGENT_ID}:agent:{HOME}:{shell}")
    await _add_line(box, "/etc/group", f"agent:x:{AGENT_ID}:")


async def _add_line(box: LocalBox, path: str, line: str) -> None:
    try:
        content = await box.read(path)
    except TransferFailed:
        content = b""
    known = [entry.split(b":") for entry in content.splitlines()]
    if any(fields[2:3] == [str(AGENT_ID).encode()] or fields[0] == b"agent" for fields in known):
        return
    end = b"" if not content or content.endswith(b"\n") else b"\n"
    with suppress(TransferFailed):
        await box.write(path, content + end + line.encode() + b"\n")
