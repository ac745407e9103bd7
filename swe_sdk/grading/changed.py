"""Which files a patch has changed, as git and the tree say.

Never as the text of the patch says: a patch can be written so that another reader of it finds other names in it than
the program that applies it (prefixes of its own, GNU patch's other formats, indented diffs).
"""

from __future__ import annotations

import re

from swe_sdk.errors import ResetFailed
from swe_sdk.grading.box_git import BoxGit, problem
from swe_sdk.grading.runner_files import touched_paths
from swe_sdk.grading.tree import LISTING_BYTES, Tree, list_untracked
from swe_sdk.model.patch import Patch
from swe_sdk.recipes.contract import Rung

_ACTS = re.compile(r" --(?:reject|3way)\b| -3\b")


async def changed_by_git(git: BoxGit, rung: Rung, patch: Patch, patch_path: str) -> tuple[bytes, ...]:
    """What a ``git apply`` has changed, by its own reading of the patch.

    It names the new name of a file that it moves, so names that the patch's headers give are added. Raises
    ``ResetFailed``, and what the sandbox raises.
    """
    command = f"{_ACTS.sub('', rung.command)} --numstat -z"
    result = await git.run(command, env={"PATCH": patch_path}, output_bytes=LISTING_BYTES)
    if not result.ok or result.truncated:
        raise ResetFailed(f"git cannot say which files the patch changes: {problem(result)}")
    named = (entry.split(b"\t", 2)[-1] for entry in result.stdout_bytes.split(b"\0") if entry)
    return tuple(dict.fromkeys((*named, *touched_paths(patch))))


async def changed_in_tree(git: BoxGit, before: Tree) -> tuple[bytes, ...]:
    """What differs from the index, and what lies there now that did not before.

    Raises ``ResetFailed``, and what the sandbox raises.
    """
    result = await git.git("diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", output_bytes=LISTING_BYTES)
    if not result.ok or result.truncated:
        raise ResetFailed(f"git cannot say which files the patch has changed: {problem(result)}")
    tracked = (name for name in result.stdout_bytes.split(b"\0") if name)
    return (*tracked, *sorted(await list_untracked(git) - before.untracked))


async def files_of_git(git: BoxGit) -> bytes:
    """The files below ``.git`` with their sizes and times of change, to be compared."""
    result = await git.run(["find", ".git", "-printf", r"%p %s %C@ %i\0"], output_bytes=LISTING_BYTES)
    if not result.ok or result.truncated:
        raise ResetFailed(f"the repository's own files cannot be listed: {problem(result)}")
    return result.stdout_bytes
