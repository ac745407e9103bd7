"""Which node this is: a machine and its cache folder. What lies in that folder is nowhere else."""

from __future__ import annotations

import platform
from pathlib import Path

from swe_sdk import paths
from swe_sdk.model.ids import content_key
from swe_sdk.sandbox.contract import SandboxProvider, SupportsBuild
from swe_sdk.sandbox.owner import current_owner, has_machine_id


def node_id(folder: Path | None = None) -> str:
    """``<host name>-<digest>`` of the machine and a cache folder; None = :func:`swe_sdk.paths.state_dir`.

    It stays the same from process to process and, where there is an ``/etc/machine-id``, from boot to boot. Without one
    a boot makes another node: two machines must never pass for the same.
    """
    owner = current_owner()
    machine = [owner.host] if has_machine_id(owner) else [owner.host, owner.boot_id]
    return f"{platform.node() or 'host'}-{content_key([*machine, str(folder or paths.state_dir())])[:12]}"


def node_of_snapshots(provider: SandboxProvider) -> str:
    """Which node has the snapshots that a provider makes here; empty where every machine that reaches it has them.

    A provider that was made with a folder of its own, elsewhere, is a node of its own.
    """
    if "remote_snapshots" in provider.capabilities:
        return ""
    state = provider.state if isinstance(provider, SupportsBuild) else paths.state_dir()
    return node_id() if state.is_relative_to(paths.state_dir()) else node_id(state)
