"""From a request to a box whose supervisor serves us."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from swe_sdk.errors import CreateFailed, SandboxError
from swe_sdk.sandbox.providers.docker.accounts import require_readable
from swe_sdk.sandbox.providers.docker.arrival import Arrival
from swe_sdk.sandbox.providers.docker.container import container_name, container_request
from swe_sdk.sandbox.providers.docker.failures import Conflict, EngineSilent, EngineTrouble, unusable

if TYPE_CHECKING:
    from swe_sdk.sandbox.providers.docker.box import DockerBox
    from swe_sdk.sandbox.providers.docker.engine import Engine
    from swe_sdk.sandbox.providers.docker.provider import DockerProvider

ARRIVAL_TIMEOUT_S = 60.0
_LOOK_S = 0.5
_ATTEMPTS = 3
_BACKOFF_S = 0.5


async def bring_up(provider: DockerProvider, box: DockerBox) -> None:
    """Make the container, start it and wait for its supervisor.

    Raises ``CreateFailed``, ``NoSpace`` or ``SandboxLost``; the caller then removes what there may be of it.
    """
    try:
        with Arrival(provider.state / "boxes" / box.id) as arrival:
            box.container = await _create(provider, box, arrival.directory)
            if box.image.id not in provider.customs:  # the first on its image
                await require_readable(provider.engine, box.container)
            await _start(provider.engine, box.container)
            control, pid = await _await_supervisor(provider.engine, box.container, arrival)
        await box.begin(control, pid)
        box.lease = provider.leases.confirm(box.lease, box.container)
    except EngineTrouble as error:
        raise CreateFailed(error.message, remedy=error.remedy) from error
    except OSError as error:
        raise unusable(provider.state, error) from error


async def _create(provider: DockerProvider, box: DockerBox, directory: Path) -> str:
    """The id of the container. One whose reply was lost is found by its name, and not made twice."""
    name = container_name(box.lease)
    labels, is_rootless = box.lease.labels(), provider.is_rootless
    request = container_request(box.spec, box.image, labels, provider.runtime(), directory, is_rootless=is_rootless)

    def create(api: Any) -> str:
        return str(api.create_container_from_config(request, name)["Id"])

    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return await provider.engine.call("create a container", create)
        except (EngineSilent, Conflict) as error:
            found = await _found(provider.engine, name)
            if found is not None:
                return found
            if attempt == _ATTEMPTS:
                raise
            lost = error
        await anyio.sleep(_BACKOFF_S * 2**attempt)
    raise lost


async def _found(engine: Engine, name: str) -> str | None:
    try:
        container = await engine.inspect(name)
    except SandboxError:
        return None  # it does not answer: the next attempt will tell
    return None if container is None else str(container["Id"])


async def _start(engine: Engine, container: str) -> None:
    """Start it. Where the reply is lost, whether it runs is what counts: a second start of one that runs is nothing."""
    try:
        await engine.call("start a container", lambda api: api.start(container))
    except EngineSilent:
        await engine.call("start a container", lambda api: api.start(container))


async def _await_supervisor(engine: Engine, container: str, arrival: Arrival) -> tuple[Any, int]:
    """The supervisor's control socket, and its pid on this machine; ``CreateFailed`` if it died or never came."""
    pid = await _pid(engine, container)
    with anyio.move_on_after(ARRIVAL_TIMEOUT_S):
        while True:
            with anyio.move_on_after(_LOOK_S):
                return await arrival.accept(pid), pid
            pid = await _pid(engine, container)
    raise CreateFailed(
        f"no supervisor after {ARRIVAL_TIMEOUT_S:.0f} s in the container {container:.12}",
        remedy="is the machine overloaded? does the engine run on it, and see the directories of this process?",
    )


async def _pid(engine: Engine, container: str) -> int:
    found = await engine.inspect(container)
    state = {} if found is None else found["State"]
    if not state.get("Running"):
        code = "" if found is None else f", with exit code {state.get('ExitCode')}: {state.get('Error') or 'no reason'}"
        raise CreateFailed(f"the container {container:.12} ended before its supervisor was there{code}")
    return int(state["Pid"])
