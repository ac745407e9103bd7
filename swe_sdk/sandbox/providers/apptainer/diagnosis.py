"""Why Apptainer did not start our zygote, in words that say what to do."""

from __future__ import annotations

import re
from pathlib import Path

from swe_sdk.errors import CreateFailed, NoSpace, ProviderUnavailable, SweError

_NAMESPACES = re.compile(
    r"user namespace|uid_map|gid_map|unshare|CLONE_NEWUSER|setgroups|max_user_namespaces|not allowed by configuration",
    re.IGNORECASE,
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_LEVEL = re.compile(r"(ERROR|FATAL)\s*:\s*")
_NO_SUCH_FLAG = re.compile(r"unknown (?:shorthand )?flag", re.IGNORECASE)
_IMAGE = re.compile(r"image|squashfs|format|SIF|container creation failed: mount", re.IGNORECASE)
_NO_BIND = re.compile(r"/runtimes/\S+: no such file", re.IGNORECASE)
_FORBIDDEN = re.compile(r"configuration disallows", re.IGNORECASE)
_NO_FUSE = re.compile(r"squashfuse|fuse-overlayfs|/dev/fuse|fusermount", re.IGNORECASE)
_NO_PLACE = re.compile(r"overlay|underlay|destination .* doesn't exist", re.IGNORECASE)


def explain_start(image: Path, output: str) -> SweError:
    """The typed error for what ``apptainer`` printed before it ended. No program of an image has run by then."""
    said = last_words(output)
    if "no space left on device" in output:
        return NoSpace(f"no space left to mount {image}: {said}", remedy="free some disk")
    if _NO_SUCH_FLAG.search(output):
        return ProviderUnavailable(f"this apptainer is too old: {said}", remedy="apptainer 1.1 or newer")
    if _NAMESPACES.search(said):
        return ProviderUnavailable(
            f"apptainer may not make this user root of a namespace here: {said}",
            remedy="ask for unprivileged user namespaces (sysctl user.max_user_namespaces above 0; on Ubuntu, the "
            "AppArmor profile that comes with apptainer)",
        )
    if _NO_BIND.search(said):
        return ProviderUnavailable(
            f"apptainer binds no directories for users here: {said}",
            remedy="ask for `user bind control = yes` in apptainer.conf, or install an apptainer of your own",
        )
    if _FORBIDDEN.search(said):
        return ProviderUnavailable(
            f"apptainer.conf forbids it: {said}",
            remedy="unpack the image (`apptainer build --sandbox DIR IMAGE`), or install an apptainer of your own",
        )
    if _NO_FUSE.search(said):
        return ProviderUnavailable(
            f"apptainer cannot mount an image here: {said}",
            remedy="install squashfuse and fuse-overlayfs and let users open /dev/fuse, or unpack the image: "
            "`apptainer build --sandbox DIR IMAGE`, and name the directory",
        )
    if _NO_PLACE.search(said):
        return ProviderUnavailable(
            f"apptainer could make no mount point in {image}: {said}",
            remedy="install fuse-overlayfs, or let the image have a directory /mnt",
        )
    if _IMAGE.search(said):
        return CreateFailed(f"{image} could not be mounted: {said}", remedy="is it complete? `apptainer inspect` it")
    return CreateFailed(f"apptainer could not start {image}: {said}")


def last_words(output: str) -> str:
    """The line that says why, of all that it printed."""
    lines = [line.strip() for line in _COLOURS.sub("", output).splitlines() if line.strip()]
    said = [(found[1], line[found.end() :]) for line in lines if (found := _LEVEL.match(line))]
    errors = [text for level, text in said if level == "ERROR"]
    fatal = [text for level, text in said if level == "FATAL"]
    return " / ".join([*errors[-1:], *fatal[-1:]] or lines[-1:] or ["it said nothing"])[:500]
