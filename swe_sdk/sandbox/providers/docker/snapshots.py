"""Snapshots as images: committed, then named.

An image is a snapshot once it has its name, ``swe_sdk/snapshot:<id>``; a commit whose maker died before that is an
image without a name, labelled with its owner, which the reaper removes. Deleting takes the name away and gives another,
``swe_sdk/deleted:<id>``, under which the image waits until no box needs it.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from swe_sdk.errors import SandboxClosed, SandboxError, SnapshotBusy
from swe_sdk.sandbox.contract import Snapshot
from swe_sdk.sandbox.leases import Lease
from swe_sdk.sandbox.providers.docker.container import KIND, SNAPSHOT_CREATED, SNAPSHOT_KIND, Image
from swe_sdk.sandbox.providers.docker.engine import SLOW_TIMEOUT_S, Engine
from swe_sdk.sandbox.providers.docker.failures import Conflict, NotThere, Refused
from swe_sdk.sandbox.providers.docker.flattening import flattened

if TYPE_CHECKING:
    from swe_sdk.sandbox.providers.docker.box import DockerBox
    from swe_sdk.sandbox.providers.docker.provider import DockerProvider

SNAPSHOTS, DELETED = "swe_sdk/snapshot", "swe_sdk/deleted"
_ID = re.compile(r"snap-[0-9a-f]{12}")
MAX_DEPTH = 100
"""Layers of an image, from which on a snapshot is made of one layer: the engine stops at 125."""


def image_name(snapshot_id: str) -> str | None:
    """What the engine calls a snapshot; None for what is no id of one."""
    return f"{SNAPSHOTS}:{snapshot_id}" if _ID.fullmatch(snapshot_id) else None


async def freeze(provider: DockerProvider, box: DockerBox, snapshot_id: str) -> Snapshot:
    """A snapshot of ``box``, by that id; see :meth:`swe_sdk.sandbox.contract.SupportsSnapshots.snapshot`."""
    async with box.freezing:
        await _require_still(box)
        await _require_space(provider, box)
        lease = provider.intend(box.spec)
        with provider.leases.closing(lease):
            try:
                snapshot = await _commit(provider, box, lease, snapshot_id)
            except SandboxError as error:
                if box.is_closed:
                    raise SandboxClosed(f"box {box.id} was closed meanwhile") from error
                raise
        return snapshot


async def _require_still(box: DockerBox) -> None:
    """Nothing may write meanwhile: no process that runs, and no call of ours."""
    alive = await box.alive()
    moving = [process for process in alive if not box.is_paused or process.state not in "TtDZ"]
    if moving:
        names = ", ".join(f"{process.pid} {process.command:.60}" for process in moving[:5])
        raise SnapshotBusy(f"processes are alive in the box: {names}", remedy="pause it or stop them")
    if box.is_used and not box.is_paused:  # else it is a command, which stands still
        raise SnapshotBusy("a call to the box is under way", remedy="wait for it")


async def _require_space(provider: DockerProvider, box: DockerBox) -> None:
    """By the length of files: the engine writes their holes out, and goes on with it when nobody waits any more."""

    def written(api: Any) -> int:
        found = api.containers(all=True, size=True, filters={"id": box.container})
        return int(found[0].get("SizeRw", 0)) if found else 0

    provider.images.require_space(await provider.engine.call("measure a container", written, timeout_s=SLOW_TIMEOUT_S))


async def _commit(provider: DockerProvider, box: DockerBox, lease: Lease, snapshot_id: str) -> Snapshot:
    snapshot = Snapshot(id=snapshot_id, provider=provider.name, created_at=round(time.time(), 3))
    labels = {**lease.labels(), KIND: SNAPSHOT_KIND, SNAPSHOT_CREATED: f"{snapshot.created_at:.3f}"}

    def commit(api: Any) -> None:
        # nothing runs, or the box is paused: the engine need not stop it once more
        made = api.commit(box.container, pause=False, conf=settings(box.image, labels))["Id"]
        if box.image.depth + 1 >= MAX_DEPTH:
            made = flattened(api, made, labels)
        api.tag(made, SNAPSHOTS, snapshot.id)

    await provider.engine.call("commit a container", commit, timeout_s=SLOW_TIMEOUT_S)
    return snapshot


def settings(image: Image, labels: dict[str, str]) -> dict[str, Any]:
    """Those of the image below, instead of those with which its container was made to run our supervisor."""
    kept = {name: image.config.get(name) for name in ("Cmd", "Env", "WorkingDir", "Volumes")}
    inherited = {name: value for name, value in (image.config.get("Labels") or {}).items() if name != KIND}
    return {
        **{name: value for name, value in kept.items() if value},
        "Entrypoint": image.config.get("Entrypoint") or [],
        "User": image.user or "root",
        "StopSignal": image.config.get("StopSignal") or "SIGTERM",
        "Labels": {**inherited, **labels},
    }


async def snapshots(engine: Engine, provider: str) -> list[Snapshot]:
    """All that have a name, oldest first."""
    filters = {"label": f"{KIND}={SNAPSHOT_KIND}", "reference": f"{SNAPSHOTS}:*"}
    found: list[dict[str, Any]] = await engine.call("list images", lambda api: api.images(filters=filters))
    named = [
        Snapshot(id=name.partition(":")[2], provider=provider, created_at=float(image["Labels"][SNAPSHOT_CREATED]))
        for image in found
        for name in image.get("RepoTags") or ()
        if name.startswith(f"{SNAPSHOTS}:")
    ]
    return sorted(named, key=lambda snapshot: (snapshot.created_at, snapshot.id))


async def delete(engine: Engine, snapshot_id: str) -> None:
    """Forget a snapshot; unknown ids are ignored."""
    name = image_name(snapshot_id)
    if name is None:
        return

    def rename(api: Any) -> None:
        api.tag(name, DELETED, snapshot_id)
        api.remove_image(name)

    try:
        await engine.call("delete a snapshot", rename)
    except NotThere:
        return
    await remove_image(engine, f"{DELETED}:{snapshot_id}")


async def collect(engine: Engine) -> None:
    """Remove what was deleted and is needed no more."""
    found: list[dict[str, Any]] = await engine.call(
        "list images", lambda api: api.images(filters={"reference": f"{DELETED}:*"})
    )
    for image in found:
        for name in image.get("RepoTags") or ():
            await remove_image(engine, name)


async def remove_image(engine: Engine, name: str) -> bool:
    """Remove an image, unless a container or another image stands on it; whether it is gone."""
    try:
        await engine.call(f"remove {name}", lambda api: api.remove_image(name), timeout_s=SLOW_TIMEOUT_S)
    except NotThere:
        return True
    except (Conflict, Refused):
        return False
    return True
