"""The zygote within a container that somebody else has made: its image is what boxes stand on.

The container is one of an image, not of a box. It has the file system of this machine bound somewhere, and this process
has all powers in it, over nothing but itself. So the process keeps the image's root as one more layer of the state
directory and makes the machine's file system its root again; from then on it is a zygote like any other, whose boxes
hold the image, and see neither the container nor the machine.
"""

from __future__ import annotations

import json
import os

from . import kernel, zygote

IMAGE = "image"
"""Where the image's root is, below the state directory, for this zygote and its boxes alone."""
_SESSION_ROOT = "/mnt/session/rootfs"
"""The end of the path at which Apptainer mounts an image, before it lays mount points and its own files over it."""


def main(machine: str, state: str, directory: str = "") -> None:
    """Serve the control socket that is standard input; never returns.

    ``machine`` is where the file system of this machine is bound, ``state`` a directory of that machine, and so is
    ``directory``, where that is the image and the container an empty one. The first line on standard output is JSON:
    ``env``, the variables that the image sets, ``bash``, whether it has that, and ``pid``, that of this process as the
    machine knows it.
    """
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)  # Apptainer makes its root unbindable
    root = f"{machine}{directory}" if directory else _image_root(machine)
    facts = {
        "env": {name: value for name, value in os.environ.items() if name.isidentifier()},
        "bash": os.access(f"{root}/bin/bash", os.X_OK),
        "pid": int(os.readlink(f"{machine}/proc/self")),
    }
    kernel.mount(root, f"{machine}{state}/{IMAGE}", None, kernel.MS_BIND)
    # This process may be in a pid namespace of its own, of which the machine's /proc knows nothing.
    kernel.mount("/proc", f"{machine}/proc", None, kernel.MS_BIND | kernel.MS_REC)
    os.chdir(machine)
    kernel.pivot_root_here()
    kernel.detach_mount(".")
    os.chdir("/")
    os.write(1, json.dumps(facts).encode() + b"\n")
    os.dup2(2, 1)
    zygote.main(0)


def _image_root(machine: str) -> str:
    """The image alone, where its mount can be seen; else the root of the container, without what is mounted on it."""
    with open("/proc/self/mountinfo", "rb") as file:
        places = [os.fsdecode(line.split()[4]) for line in file]
    found = [place for place in places if place.startswith(f"{machine}/") and place.endswith(_SESSION_ROOT)]
    return found[-1] if found else "/"
