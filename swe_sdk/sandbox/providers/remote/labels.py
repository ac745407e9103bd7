"""Whose a sandbox is, as metadata of the strictest kind: values of at most 63 characters out of ``[A-Za-z0-9._-]``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import ValidationError

from swe_sdk.sandbox.leases import LABEL_LEASE, Lease
from swe_sdk.sandbox.owner import Owner
from swe_sdk.sandbox.providers.remote.engine import FoundSandbox
from swe_sdk.sandbox.reaping import OwnedBox

KIND = "swe_sdk.kind"
BOX_KIND = "remote-box"
BOX = "swe_sdk.box"
"""The id of the box, which stays when its lease changes."""
_NODE, _MACHINE, _BOOT, _PROCESS = "swe_sdk.node", "swe_sdk.machine", "swe_sdk.boot", "swe_sdk.process"
_NO_MACHINE = "none"
_ODD = re.compile(r"[^A-Za-z0-9._-]+")
_MOST_CHARACTERS = 63


def metadata_of(lease: Lease, box_id: str) -> dict[str, str]:
    """All that a sandbox of ours is labelled with: the same keys for every box, so that a fork inherits none."""
    node, _, machine = lease.owner.host.rpartition("/")
    return {
        KIND: BOX_KIND,
        BOX: box_id,
        LABEL_LEASE: lease.id,
        _NODE: safe_value(node),
        _MACHINE: safe_value(machine) or _NO_MACHINE,
        _BOOT: lease.owner.boot_id,
        _PROCESS: f"{lease.owner.pid}.{lease.owner.started}.{lease.owner.pid_namespace}.{lease.owner.token}",
        "swe_sdk.run": safe_value(lease.run),
        "swe_sdk.task": safe_value(lease.task),
    }


def safe_value(text: str) -> str:
    """The text as such a value; shortened and with other characters replaced, where it must be."""
    return _ODD.sub("_", text)[:_MOST_CHARACTERS].strip("._-")


def owned_box(found: FoundSandbox) -> OwnedBox | None:
    """What a reaper is told of it; None where it is not ours."""
    if found.metadata.get(KIND) != BOX_KIND or LABEL_LEASE not in found.metadata:
        return None
    return OwnedBox(
        handle=found.id,
        lease=found.metadata[LABEL_LEASE],
        owner=owner_of(found.metadata),
        description="remote sandbox",
    )


def owner_of(metadata: Mapping[str, str]) -> Owner | None:
    """The process that the metadata names; None where they name none."""
    machine = metadata.get(_MACHINE, "")
    parts = metadata.get(_PROCESS, "").split(".")
    if len(parts) != 4:
        return None
    try:
        return Owner.model_validate(
            {
                "host": f"{metadata.get(_NODE, '')}/{'-' if machine == _NO_MACHINE else machine}",
                "boot_id": metadata.get(_BOOT, ""),
                "pid": int(parts[0]),
                "started": int(parts[1]),
                "pid_namespace": int(parts[2]),
                "token": parts[3],
            }
        )
    except (ValueError, ValidationError):
        return None
