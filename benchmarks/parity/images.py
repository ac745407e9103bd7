"""Images with the official names: those that the engine has, and those that our own environments are turned into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from anyio import to_thread

from benchmarks.parity.script import source_row
from benchmarks.parity.tasks import Row, Selection
from benchmarks.rows import Unavailable
from swe_sdk.errors import SweError
from swe_sdk.model.environment import WORKDIR
from swe_sdk.model.task import Task
from swe_sdk.sandbox.environments import prepare
from swe_sdk.sandbox.prepared import PreparedEnvironment
from swe_sdk.sandbox.providers.docker.container import KIND
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from swe_sdk.sandbox.providers.docker.snapshots import image_name

OURS = "parity"
"""The value of the label ``swe_sdk.kind`` of what is built here."""
_VERSION = 1
"""Changes whenever the same snapshot would become another image."""
Say = Callable[[str], None]


def connect() -> Any:
    """A client of the engine that the harness will use; ``Unavailable`` where none answers."""
    import docker

    try:
        client = docker.from_env(timeout=1800)
        client.ping()
    except docker.errors.DockerException as error:
        raise Unavailable(f"no Docker engine answers: {error}") from None
    return client.api


def engine_of(api: Any, base: str | None) -> str:
    """A sentence on the engine and what was built on."""
    info = api.info()
    built = f" Images that were built here stand on `{base}`." if base else ""
    return f"Docker {info['ServerVersion']}, storage by {info['Driver']}.{built}"


async def rows_with_images(
    api: Any, selection: Selection, provider: DockerProvider, *, workers: int, pull: bool, say: Say
) -> list[Row]:
    """Rows of the 5.x form whose images the engine has now. Tasks without one are dropped from ``selection``."""
    rows: dict[str, Row] = {}
    limiter = anyio.CapacityLimiter(workers)

    async def one(name: str) -> None:
        row, task = selection.rows[name], selection.tasks[name]
        async with limiter:
            try:
                if row.get("eval_script") is None:
                    rows[name] = await _built(api, row, task, provider, say)
                else:
                    await _require(api, row["image"], task, provider, pull)
                    rows[name] = row
            except (SweError, Unavailable) as error:
                selection.drop(name, str(error).splitlines()[0])

    async with anyio.create_task_group() as group:
        for name in list(selection.tasks):
            group.start_soon(one, name)
    return [rows[name] for name in selection.tasks]


async def _require(api: Any, image: str, task: Task, provider: DockerProvider, pull: bool) -> None:
    if pull:
        await prepare(provider, task.environment)
    if await to_thread.run_sync(_inspect, api, image) is None:
        raise Unavailable(f"its image {image} is not here")


async def _built(api: Any, row: Row, task: Task, provider: DockerProvider, say: Say) -> Row:
    prepared = await prepare(provider, task.environment, on_progress=lambda line: say(f"{task.instance_id}: {line}"))
    image = await to_thread.run_sync(official_image, api, task.instance_id, prepared)
    return source_row(row, task, prepared, image)


def official_image(api: Any, instance_id: str, prepared: PreparedEnvironment) -> str:
    """The snapshot of an environment under the official name, with the settings that official images have.

    ``Unavailable`` where somebody else has an image of that name.
    """
    name = f"sweb.eval.x86_64.{instance_id.lower()}"
    there = _inspect(api, f"{name}:latest")
    labels = {KIND: OURS, "swe_sdk.parity.key": f"{_VERSION} {prepared.key} {prepared.snapshot}"}
    if there is not None and _labels(there).get(KIND) != OURS:
        raise Unavailable(f"an image {name}:latest is here already that was not built for this")
    if there is None or not labels.items() <= _labels(there).items():
        settings = {"WorkingDir": WORKDIR, "StopSignal": "SIGTERM", "Labels": labels}
        _commit(api, image_name(prepared.snapshot or "") or "", name, settings)
        if there is not None:
            _remove_unused(api, there["Id"])
    return f"{name}:latest"


def _commit(api: Any, snapshot: str, name: str, settings: dict[str, Any]) -> None:
    container = api.create_container(snapshot, ["true"])["Id"]
    try:
        api.commit(container, repository=name, tag="latest", conf=settings)
    finally:
        api.remove_container(container, force=True)


def _remove_unused(api: Any, image: str) -> None:
    import docker.errors

    try:
        api.remove_image(image)
    except docker.errors.APIError:
        pass  # another run still has a container of it


def _inspect(api: Any, image: str) -> dict[str, Any] | None:
    """None where the engine has none of that name."""
    import docker.errors

    try:
        found: dict[str, Any] = api.inspect_image(image)
    except docker.errors.ImageNotFound:
        return None
    return found


def _labels(found: dict[str, Any]) -> dict[str, str]:
    return found["Config"].get("Labels") or {}
