"""Whether the engine works for us on this machine, and if not, why and what to do."""

from __future__ import annotations

import io
import sys
import tarfile
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from swe_sdk.errors import ProviderUnavailable, SweError
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import Enforcement, ProviderHealth, SandboxSpec
from swe_sdk.sandbox.providers.docker.container import KIND, PROBE_KIND
from swe_sdk.sandbox.providers.docker.engine import OLDEST_API, SLOW_TIMEOUT_S, Engine
from swe_sdk.sandbox.providers.docker.failures import EngineSilent
from swe_sdk.sandbox.runtime import MOUNT
from swe_sdk.sandbox.trial import require_works

if TYPE_CHECKING:
    from swe_sdk.sandbox.providers.docker.provider import DockerProvider

EMPTY_IMAGE = "swe_sdk/empty:1"
"""An image without a single file, made here: our supervisor needs none, so that a probe pulls nothing."""
_LOCAL = ("unix", "http+unix", "npipe")


async def probe(provider: DockerProvider) -> ProviderHealth:
    """Ask the engine, then make a box of nothing, run a program of ours in it, and close it. Never raises."""
    details: dict[str, str] = {"engine": provider.engine.base_url}
    try:
        info = await ask(provider.engine)
        details |= _details(info)
        await _try(provider)
    except SweError as error:
        return ProviderHealth(
            provider=provider.name, works=False, reason=error.message, remedy=error.remedy, details=details
        )
    return ProviderHealth(provider=provider.name, works=True, details=details, limits=_limits(info))


async def ask(engine: Engine) -> dict[str, Any]:
    """What the engine says of itself; ``ProviderUnavailable`` where it cannot be used from here."""
    if sys.platform != "linux":
        raise ProviderUnavailable("its boxes share directories and sockets with this process, which takes Linux")
    _require_local(engine.base_url)
    try:
        info = await engine.call("say what it is", _introduction)
    except EngineSilent as silent:
        raise _unreachable(engine.base_url, silent.message) from None
    except (KeyError, TypeError, ValueError) as error:
        raise ProviderUnavailable(
            f"what answers at {engine.base_url} is no Docker engine", remedy="unset DOCKER_HOST, or set it to one"
        ) from error
    if _parts(str(info["Api"])) < _parts(OLDEST_API):
        raise ProviderUnavailable(
            f"the Docker engine speaks version {info['Api']} of its API", remedy="install Docker 20.10 or newer"
        )
    if info.get("OSType") != "linux" or "Docker Desktop" in str(info.get("OperatingSystem")):
        raise ProviderUnavailable(
            f"the Docker engine runs in a virtual machine ({info.get('OperatingSystem')}), with whose programs this"
            " process shares no sockets",
            remedy="install Docker Engine on this machine itself",
        )
    return info


def _introduction(api: Any) -> dict[str, Any]:
    info: dict[str, Any] = {**api.info(), "Api": api.api_version}
    if not info["ServerVersion"] or not _parts(info["Api"]):
        raise ValueError("an engine has versions")
    return info


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _require_local(base_url: str) -> None:
    scheme = urlsplit(base_url).scheme
    if scheme not in _LOCAL:
        raise ProviderUnavailable(
            f"the Docker engine at {base_url} is on another machine: directories of this one cannot be mounted there",
            remedy="unset DOCKER_HOST, or run swe_sdk on the engine's machine",
        )


def _unreachable(base_url: str, message: str) -> ProviderUnavailable:
    if "PermissionError" in message or "Permission denied" in message:
        return ProviderUnavailable(
            f"this user may not use the Docker engine at {base_url}",
            remedy="join its group (usermod -aG docker USER, then log in again), or set up rootless Docker",
        )
    if "FileNotFoundError" in message or "No such file" in message or "ConnectionRefused" in message:
        return ProviderUnavailable(
            f"no Docker engine answers at {base_url}",
            remedy="install Docker and start it (systemctl start docker, or dockerd), or set DOCKER_HOST",
        )
    return ProviderUnavailable(message, remedy="does `docker info` work?")


def _details(info: dict[str, Any]) -> dict[str, str]:
    options = [str(option).partition(",")[0].removeprefix("name=") for option in info.get("SecurityOptions") or ()]
    return {
        "version": str(info.get("ServerVersion")),
        "api": str(info["Api"]),
        "storage": str(info.get("Driver")),
        "data": str(info.get("DockerRootDir")),
        "control groups": f"version {info.get('CgroupVersion', '1')}",
        "security": ", ".join(options) or "none",
    }


def _limits(info: dict[str, Any]) -> dict[str, Enforcement]:
    def kept(flag: str) -> Enforcement:
        return "enforced" if info.get(flag) else "unavailable"

    return {
        "memory_mib": kept("MemoryLimit"),
        "cpus": kept("CpuCfsQuota"),
        "pids": kept("PidsLimit"),
        "disk_mib": "watched",  # by us: the engine limits it on few file systems, with a special mount option
        "file_size_bytes": "enforced",
        "open_files": "enforced",
    }


async def _try(provider: DockerProvider) -> None:
    await ensure_empty_image(provider.engine)

    async def run_in_new_box() -> ExecResult:
        box = await provider.create(SandboxSpec(image=EMPTY_IMAGE, workdir="/"))
        try:
            program = [*provider.runtime().interpreter(MOUNT), "-c", "print('works')"]
            return await box.exec(program, cwd="/", timeout_s=20)
        finally:
            await box.close()

    await require_works(run_in_new_box)


async def ensure_empty_image(engine: Engine) -> None:
    """Make the image without a file, if it is not there."""

    def ensure(api: Any) -> None:
        if not api.images(name=EMPTY_IMAGE):
            name, _, tag = EMPTY_IMAGE.partition(":")
            api.import_image_from_data(_empty_archive(), name, tag, changes=[f"LABEL {KIND}={PROBE_KIND}"])

    await engine.call("import an empty image", ensure, timeout_s=SLOW_TIMEOUT_S)


def _empty_archive() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w"):
        pass
    return file.getvalue()
