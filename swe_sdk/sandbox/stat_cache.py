"""After a snapshot, git must not take files for changed that are not.

git remembers each file's inode number, and looks into the file only where that has changed. In a box, a file that was
changed in place keeps the number of its original until its layer is frozen, and has one of its own from then on; in the
copy of a layer all files have new ones. Commands that refresh git's memory first (status, diff, commit, stash, rebase)
do not mind, but ``git diff-index --quiet HEAD`` in a script would say that such files were modified.

A refresh looks at every file of the repository once: 13 ms for 5000 files, twice as long as a fork takes. So it is made
for forks and boxes of snapshots that a user has asked for, and not for each of the many boxes of an environment: what
a build has written is new and not changed in place, and none of 5000 files is taken for modified.
"""

from __future__ import annotations

from swe_sdk.sandbox.contract import Box

REFRESH_TIMEOUT_S = 60.0


async def refresh_index(box: Box, workdir: str) -> None:
    """Have git look at the files of the repository at ``workdir`` anew; one that it cannot refresh stays as it is."""
    command = ["git", "-c", "core.fsmonitor=false", "update-index", "-q", "--refresh"]
    await box.exec(command, cwd=workdir, timeout_s=REFRESH_TIMEOUT_S)
