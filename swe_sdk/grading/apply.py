"""Apply a model's patch by the rungs of its family's ladder, one after the other, each on a clean tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from swe_sdk.errors import ResetFailed
from swe_sdk.grading.box_git import BoxGit, is_safe
from swe_sdk.grading.changed import changed_by_git, changed_in_tree, files_of_git
from swe_sdk.grading.tree import Tree, bring_back, remember
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.patch import Patch
from swe_sdk.recipes.contract import Rung

ALREADY_APPLIED = Rung(name="already-applied", command='git apply --check --reverse "$PATCH"')
"""The official harness's last resort: a patch that can be taken back from the base is in it already."""


@dataclass(frozen=True)
class Applied:
    """``rung`` names the command that took the patch, None where none did; ``attempts`` has a record of each try.

    ``paths`` are the files that it changed.
    """

    rung: str | None
    attempts: list[dict[str, Any]] = field(default_factory=list)
    paths: tuple[bytes, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the patch is in the tree."""
        return self.rung is not None


async def apply_patch(git: BoxGit, patch: Patch, ladder: Sequence[Rung]) -> Applied:
    """Try each rung until one exits with code 0, then :data:`ALREADY_APPLIED`.

    The patch travels as a file, so its size and its bytes do not matter. After a failed rung the tree is as it was:
    content, untracked and ignored files, empty directories. Order and the reverse check are those of SWE-bench 5.x;
    its ``git clean`` between the rungs is not, as that deletes prebuilt files.

    Where a patch names files in ``.git``, outside of the repository or behind a link, only plain ``git apply`` is
    tried, which refuses them: GNU patch writes into ``.git``, and ``git apply --3way`` through links.

    Raises ``ResetFailed`` where the tree could not be brought back, where the patch got into ``.git`` all the same, or
    where git cannot say what has changed; and what the sandbox raises.
    """
    climb = _Climb(git, patch, await git.write("model.patch", patch.data))
    for rung in ladder:
        paths = await climb.step(rung)
        if paths is not None:
            return Applied(rung.name, climb.attempts, paths)
    return Applied(ALREADY_APPLIED.name if await climb.try_command(ALREADY_APPLIED) else None, climb.attempts)


class _Climb:
    """The way up the ladder with one patch."""

    def __init__(self, git: BoxGit, patch: Patch, path: str) -> None:
        self.attempts: list[dict[str, Any]] = []
        self._git = git
        self._patch = patch
        self._path = path
        self._names = [name for file in patch.files for name in file.paths]
        self._stray = next((name for name in self._names if not is_safe(name)), None)
        self._before: Tree | None = None

    async def step(self, rung: Rung) -> tuple[bytes, ...] | None:
        """Try one rung; returns what it has changed, or None with the tree as it was."""
        if _is_atomic(rung):
            return await self._changed_by_git(rung) if await self.try_command(rung) else None
        before = await self._tree()
        if self._stray is not None:
            self.attempts.append({"rung": rung.name, "skipped": f"the patch names {_shown(self._stray)}"})
            return None
        taken = await (self.try_command(rung) if _is_git(rung) else self._try_guarded(rung))
        if taken or rung.tolerant:
            by_git = taken and _is_git(rung)
            return await (self._changed_by_git(rung) if by_git else changed_in_tree(self._git, before))
        await bring_back(self._git, before)
        return None

    async def try_command(self, rung: Rung) -> bool:
        """Run the command of a rung, and record what became of it."""
        env = {"PATCH": self._path}
        result = await self._git.run(rung.command, env=env, merge_stderr=True, output_bytes=8000)
        self.attempts.append(attempt_record(rung, result))
        return result.ok

    async def _try_guarded(self, rung: Rung) -> bool:
        before = await files_of_git(self._git)
        taken = await self.try_command(rung)
        if await files_of_git(self._git) != before:
            raise ResetFailed("the patch has changed the repository's own files in .git")
        return taken

    async def _changed_by_git(self, rung: Rung) -> tuple[bytes, ...]:
        return await changed_by_git(self._git, rung, self._patch, self._path)

    async def _tree(self) -> Tree:
        """The tree as it was before the first rung that may leave something behind."""
        if self._before is None:
            self._before = await remember(self._git, self._names)
            self._stray = self._stray or await self._git.behind_a_link(self._names)
        return self._before


def attempt_record(rung: Rung, result: ExecResult) -> dict[str, Any]:
    """What became of one rung, as plain data; the output is cut to its last 2000 characters."""
    ended = {} if result.status == "exited" else {"status": result.status}
    return {"rung": rung.name, "exit_code": result.exit_code, **ended, "output": result.stdout.strip()[-2000:]}


def _is_git(rung: Rung) -> bool:
    return rung.command.startswith("git apply ")


def _is_atomic(rung: Rung) -> bool:
    """Whether it leaves nothing behind where it fails; ``--3way`` leaves conflicts, ``--reject`` half of the patch."""
    return _is_git(rung) and not {"--3way", "-3", "--reject"} & set(rung.command.split())


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")
