"""Why this machine refuses a box, in words that say what to do."""

from __future__ import annotations

import errno
import re
from pathlib import Path

from swe_sdk.errors import CreateFailed, NoSpace, ProviderUnavailable, SandboxError, SweError

_APPARMOR = "kernel/apparmor_restrict_unprivileged_userns"
_NUMBER = re.compile(r"^\[Errno \d+\] ")
_NO_NAMESPACES = "the kernel refuses user namespaces to this process"


def explain(error: str, number: int | None) -> SweError:
    """The typed error for what the zygote or a box's first process reported."""
    error = _NUMBER.sub("", error)
    if number == errno.ENOSPC and not error.startswith("clone"):
        return NoSpace(f"no space left for a box: {error}", remedy="free some disk, or set SWE_SDK_STATE elsewhere")
    if error.startswith("clone") or "uid_map" in error or "gid_map" in error or "setgroups" in error:
        return namespaces_refused(error, number)
    if number in (errno.EPERM, errno.EACCES) and _sysctl(_APPARMOR) == "1":  # a namespace, without power in it
        return namespaces_refused(error, number)
    if error.startswith("mount proc"):
        return ProviderUnavailable(
            f"/proc cannot be mounted in a namespace here ({error})",
            remedy="in a container, unmask its system paths (docker: --security-opt systempaths=unconfined)",
        )
    if error.startswith(("fsopen", "fsconfig", "fsmount", "overlay", "mount overlay", "move_mount /tmp/stage:")):
        return ProviderUnavailable(
            f"an overlay cannot be mounted here ({error})",
            remedy="set SWE_SDK_STATE to a directory on ext4, xfs, btrfs or tmpfs (not overlayfs or a network file "
            "system); Linux 5.12 or newer is needed",
        )
    return CreateFailed(f"the box could not be made: {error}")


def namespaces_refused(error: str, number: int | None) -> ProviderUnavailable:
    """The error of a machine on which this process, or the program that it uses, can make no namespaces."""
    return ProviderUnavailable(f"{_NO_NAMESPACES} ({error})", remedy=_namespace_remedy(number))


def explain_merge(error: str, number: int | None) -> SweError:
    """The typed error for what a process that copies or merges layers reported."""
    if number in (errno.ENOSPC, errno.EDQUOT):
        return NoSpace(f"no space left for a snapshot: {error}", remedy="free some disk, or delete snapshots")
    return SandboxError(f"a layer could not be copied: {error}")


def explain_unpack(digest: str, error: str, number: int | None) -> SweError:
    """The typed error for what a process that unpacks a layer of an image reported."""
    if number in (errno.ENOSPC, errno.EDQUOT):
        return NoSpace(f"no space left for an image: {error}", remedy="free some disk, or set SWE_SDK_STATE elsewhere")
    return CreateFailed(f"the layer {digest} of an image cannot be unpacked: {error}")


def _namespace_remedy(number: int | None) -> str:
    """Which switch of this machine is off."""
    if _sysctl(_APPARMOR) == "1":
        return (
            "install bubblewrap 0.11 or newer if /usr/bin/bwrap has an AppArmor profile (Ubuntu 25.04), or sudo sysctl "
            "kernel.apparmor_restrict_unprivileged_userns=0, or use --provider docker"
        )
    if _sysctl("kernel/unprivileged_userns_clone") == "0":
        return "sudo sysctl kernel.unprivileged_userns_clone=1, or use --provider docker"
    if number in (errno.ENOSPC, errno.EUSERS) or _sysctl("user/max_user_namespaces") == "0":
        return "raise sysctl user.max_user_namespaces, or use --provider docker"
    return (
        "inside a container, its seccomp profile must allow it (docker: --security-opt seccomp=unconfined "
        "--security-opt systempaths=unconfined); or use --provider docker"
    )


def _sysctl(name: str) -> str | None:
    try:
        return Path("/proc/sys", name).read_text().strip()
    except OSError:
        return None
