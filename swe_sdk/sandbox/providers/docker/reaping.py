"""What the engine has of ours that shall go with its owner, and its removal."""

from __future__ import annotations

from typing import Any

from swe_sdk.errors import SandboxError
from swe_sdk.sandbox.leases import LABEL_LEASE
from swe_sdk.sandbox.providers.docker.container import BOX_KIND, KIND, SNAPSHOT_CREATED, SNAPSHOT_KIND, name_of
from swe_sdk.sandbox.providers.docker.engine import SLOW_TIMEOUT_S, Engine
from swe_sdk.sandbox.providers.docker.removal import remove_container
from swe_sdk.sandbox.providers.docker.snapshots import remove_image
from swe_sdk.sandbox.reaping import OwnedBox, labelled

_IMAGE = "image:"


async def owned(engine: Engine) -> list[OwnedBox]:
    """Containers of boxes, in any state, and what was committed and never got its name as a snapshot."""

    def look(api: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        containers = api.containers(all=True, filters={"label": [LABEL_LEASE, f"{KIND}={BOX_KIND}"]})
        images = api.images(filters={"label": [LABEL_LEASE, f"{KIND}={SNAPSHOT_KIND}"], "dangling": True})
        return containers, images

    containers, images = await engine.call("list what is ours", look)
    used = {container["ImageID"] for container in containers}
    boxes = [labelled(found["Id"], found["Labels"], "container") for found in containers if _is_named_by_us(found)]
    halves = [
        labelled(f"{_IMAGE}{found['Id']}", found["Labels"], "unfinished snapshot")
        for found in images
        if found["Id"] not in used and _is_made_by_us(found)
    ]
    return [each for each in (*boxes, *halves) if each is not None]


def _is_named_by_us(container: dict[str, Any]) -> bool:
    """Not one of somebody else's, made of a copy of a box of ours, whose labels it then has as well."""
    return f"/{name_of(container['Labels'][LABEL_LEASE])}" in (container["Names"] or ())


def _is_made_by_us(image: dict[str, Any]) -> bool:
    """Not by somebody else on top of a snapshot of ours, whose labels it then has as well."""
    return float(image["Created"]) - float(image["Labels"].get(SNAPSHOT_CREATED, 0)) < SLOW_TIMEOUT_S


async def remove(engine: Engine, handle: str) -> None:
    """Remove a container or an unfinished snapshot; returns when it is gone."""
    if not handle.startswith(_IMAGE):
        await remove_container(engine, handle)
    elif not await remove_image(engine, handle.removeprefix(_IMAGE)):
        raise SandboxError(f"the image {handle.removeprefix(_IMAGE):.19} is in use")
