"""Remember a working tree, and bring it back after a failed attempt to patch it.

Never ``git clean``: images hold prebuilt files that are untracked or ignored, and only what the failed attempt itself
made may go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from swe_sdk.errors import ResetFailed
from swe_sdk.grading.box_git import BoxGit, problem
from swe_sdk.model.exec_result import ExecResult

LISTING_BYTES = 256 << 20
_LIST_DIRECTORIES = "find . -name .git -prune -o -type d -print0"


@dataclass(frozen=True)
class Tree:
    """What lay in the working tree besides tracked files, ignored files included."""

    untracked: frozenset[bytes]
    directories: frozenset[bytes]
    kept: tuple[bytes, ...]
    """Untracked files that the patch names: copied aside, since the attempt may overwrite or delete them."""


async def remember(git: BoxGit, named: Iterable[bytes]) -> Tree:
    """Note the untracked files and the directories, and copy aside the untracked ones among ``named``.

    Raises ``ResetFailed``, and what the sandbox raises.
    """
    untracked, directories = await list_untracked(git), await _directories(git)
    kept = tuple(dict.fromkeys(path for path in named if path in untracked))
    aside = await _aside(git)
    _require(await git.over(kept, ["cp", "-a", "--parents", "-t", aside, "--"]), "copy untracked files aside")
    return Tree(untracked, directories, kept)


async def bring_back(git: BoxGit, tree: Tree) -> None:
    """Undo whatever was done to the working tree and the index since ``tree`` was remembered.

    Raises ``ResetFailed``, and what the sandbox raises.
    """
    _require(await git.git("reset", "-q", "--hard"), "reset the tracked files")
    made = sorted(await list_untracked(git) - tree.untracked)
    _require(await git.over(made, ["rm", "-rf", "--"]), "remove what the failed attempt made")
    if tree.kept:
        _require(await git.clear(tree.kept), "remove changed untracked files")
        _require(await git.run(["cp", "-a", f"{await _aside(git)}/.", "."]), "put untracked files back")
    await _bring_back_directories(git, tree.directories)


async def _bring_back_directories(git: BoxGit, before: frozenset[bytes]) -> None:
    now = await _directories(git)
    deepest_first = sorted(now - before, key=lambda path: (-path.count(b"/"), path))
    _require(await git.over(deepest_first, ["rmdir", "--"]), "remove directories that the failed attempt made")
    _require(await git.over(sorted(before - now), ["mkdir", "-p", "--"]), "make removed directories again")


async def _aside(git: BoxGit) -> str:
    aside = f"{git.private}/aside"
    _require(await git.run(["mkdir", "-p", aside]), "make a directory")
    return aside


async def list_untracked(git: BoxGit) -> frozenset[bytes]:
    """Files that git does not track, ignored ones included; raises ``ResetFailed``, and what the sandbox raises."""
    result = await git.git("ls-files", "-z", "--others", output_bytes=LISTING_BYTES)
    return _names(result, "list untracked files")


async def _directories(git: BoxGit) -> frozenset[bytes]:
    return _names(await git.run(_LIST_DIRECTORIES, output_bytes=LISTING_BYTES), "list directories")


def _names(result: ExecResult, what: str) -> frozenset[bytes]:
    _require(result, what)
    if result.truncated:
        raise ResetFailed(f"could not {what}: there are too many")
    return frozenset(name for name in result.stdout_bytes.split(b"\0") if name)


def _require(result: ExecResult, what: str) -> None:
    if not result.ok:
        raise ResetFailed(f"could not {what}: {problem(result)}")
