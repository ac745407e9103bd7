"""What a container is asked for: pure data, as the engine's API takes it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swe_sdk.sandbox.contract import Limits, Mount, SandboxSpec
from swe_sdk.sandbox.leases import Lease
from swe_sdk.sandbox.runtime import MOUNT, Runtime

KIND = "swe_sdk.kind"
SNAPSHOT_CREATED = "swe_sdk.snapshot_created_at"
"""Unix seconds."""
BOX_KIND, SNAPSHOT_KIND, PROBE_KIND = "box", "snapshot", "probe"
PLACE = "/.swe_sdk"
SOCKET_DIRECTORY = f"{PLACE}/box"
SOCKET = "socket"
DEFAULT_PIDS = 4096
DEFAULT_MEMORY_MIB = max(1024, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4 >> 20)
_DEFAULT_SHARED_BYTES = 1 << 30
CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETPCAP", "SETUID",
)  # fmt: skip
"""What root in a box needs to install packages, own files and become other users; the supervisor needs the same.

Of the engine's defaults it lacks those that act on the kernel or the network (MKNOD, NET_RAW, AUDIT_WRITE, SETFCAP,
SYS_CHROOT).
"""


def container_name(lease: Lease) -> str:
    """By which a container is found whose id was lost with the engine's answer."""
    return name_of(lease.id)


def name_of(lease_id: str) -> str:
    """The same, where only the id of the lease is known."""
    return f"swe_sdk-{lease_id}"


@dataclass(frozen=True)
class Image:
    """What of an image matters for its boxes."""

    id: str
    env: dict[str, str]
    user: str
    """As the image says: "" is root."""
    config: dict[str, Any]
    """All of its settings, which a snapshot gets back."""
    depth: int
    """Of its layers."""

    @classmethod
    def from_api(cls, found: dict[str, Any]) -> Image:
        """From ``GET /images/NAME/json``."""
        config: dict[str, Any] = found.get("Config") or {}
        pairs = (variable.partition("=") for variable in config.get("Env") or ())
        return cls(
            id=found["Id"],
            env={name: value for name, equals, value in pairs if equals},
            user=config.get("User") or "",
            config=config,
            depth=len((found.get("RootFS") or {}).get("Layers") or ()),
        )


def container_request(
    spec: SandboxSpec,
    image: Image,
    labels: dict[str, str],
    runtime: Runtime,
    directory: Path,
    *,
    is_rootless: bool = False,
) -> dict[str, Any]:
    """The body of ``POST /containers/create``. ``directory`` is where the SDK listens.

    A rootless engine may not change settings of the kernel for a container.
    """
    return {
        "Image": image.id,
        "Entrypoint": runtime.command(f"{SOCKET_DIRECTORY}/{SOCKET}", *_words(spec)),
        "Cmd": [],
        # A name without a value is removed: nothing that the image sets (LD_PRELOAD, say) reaches the supervisor.
        # Programs get the image's variables from the SDK.
        "Env": sorted(image.env),
        "User": "0:0",
        # The engine makes the image's own, and fails where a program has put a file in its place.
        **({"WorkingDir": "/"} if image.config.get("WorkingDir") else {}),
        "Hostname": "" if spec.network == "host" else "sandbox",
        "Labels": {**labels, KIND: BOX_KIND},
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": "SIGKILL",
        "HostConfig": {**_host_config(spec, runtime, directory), "Sysctls": {} if is_rootless else _sysctls(spec)},
    }


def _words(spec: SandboxSpec) -> list[str]:
    disk_mib = spec.limits.disk_mib
    return [*(["host-network"] if spec.network == "host" else []), *([f"disk={disk_mib << 20}"] if disk_mib else [])]


def _host_config(spec: SandboxSpec, runtime: Runtime, directory: Path) -> dict[str, Any]:
    memory_bytes = (spec.limits.memory_mib or DEFAULT_MEMORY_MIB) << 20
    ours = (Mount(source=str(runtime.path), target=MOUNT), Mount(source=str(directory), target=SOCKET_DIRECTORY))
    return {
        "NetworkMode": spec.network,
        # With the SDK its control socket ends, with that the supervisor, with that the container: it leaves no trace
        # even where nobody is left to remove it.
        "AutoRemove": True,
        "Memory": memory_bytes,
        "MemorySwap": memory_bytes,
        "NanoCpus": int((spec.limits.cpus or 0) * 1_000_000_000),
        "PidsLimit": (spec.limits.pids or DEFAULT_PIDS) + 1,  # and the supervisor
        "ShmSize": _shared_bytes(spec),
        "Ulimits": _ulimits(spec.limits),
        "CapDrop": ["ALL"],
        "CapAdd": list(CAPABILITIES),
        "SecurityOpt": ["no-new-privileges"],
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "LogConfig": {"Type": "none", "Config": {}},
        "Mounts": [_place(), *(_bind(mount) for mount in (*ours, *spec.mounts))],
    }


def _shared_bytes(spec: SandboxSpec) -> int:
    memory_mib = spec.limits.memory_mib
    return (memory_mib << 20) // 2 if memory_mib else _DEFAULT_SHARED_BYTES


def _sysctls(spec: SandboxSpec) -> dict[str, str]:
    """System V segments outlive who made them: without a bound the supervisor would be the last to be killed."""
    return {"kernel.shmall": str(_shared_bytes(spec) // 2 // os.sysconf("SC_PAGE_SIZE"))}


def _ulimits(limits: Limits) -> list[dict[str, Any]]:
    largest = limits.file_size_bytes or (limits.disk_mib << 20 if limits.disk_mib else None)
    wanted = {"core": 0, "fsize": largest, "nofile": limits.open_files}
    return [{"Name": name, "Soft": value, "Hard": value} for name, value in wanted.items() if value is not None]


def _place() -> dict[str, Any]:
    """Where ours are mounted: a mount itself, or root in a box could put a link there, and so spoil the next box."""
    options = {"SizeBytes": 1 << 16, "Mode": 0o755}
    return {"Type": "tmpfs", "Target": PLACE, "ReadOnly": True, "TmpfsOptions": options}


def _bind(mount: Mount) -> dict[str, Any]:
    return {"Type": "bind", "Source": mount.source, "Target": mount.target, "ReadOnly": True}
