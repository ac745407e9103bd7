"""Apply a model's patch by the rungs of its family's ladder, one after the other, each on a clean tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from swe_sdk.grading.box_git import BoxGit, is_safe
from swe_sdk.grading.tree import Tree, bring_back, remember
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.patch import Patch
from swe_sdk.recipes.contract import Rung

ALREADY_APPLIED = Rung(name="already-applied", command='git apply --check --reverse "$PATCH"')
"""The official harness's last resort: a patch that can be taken back from the base is in it already."""


@dataclass(frozen=True)
class Applied:
    """``rung`` names the command that took the patch, None where none did; ``attempts`` has a record of each try."""

    rung: str | None
    attempts: list[dict[str, Any]] = field(default_factory=list)

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

    Raises ``ResetFailed`` where the tree could not be brought back, and what the sandbox raises.
    """
    names = [path for file in patch.files for path in file.paths]
    path = await git.write("model.patch", patch.data)
    attempts: list[dict[str, Any]] = []
    before: Tree | None = None
    stray = _lexically_stray(names)
    for rung in ladder:
        if not _is_atomic(rung):
            if before is None:
                before, stray = await remember(git, names), stray or await git.behind_a_link(names)
            if stray is not None:
                attempts.append({"rung": rung.name, "skipped": f"the patch names {_shown(stray)}"})
                continue
        attempts.append(await _try(git, rung, path))
        if attempts[-1]["exit_code"] == 0:
            return Applied(rung.name, attempts)
        if before is not None and not _is_atomic(rung):
            await bring_back(git, before)
    attempts.append(await _try(git, ALREADY_APPLIED, path))
    return Applied(ALREADY_APPLIED.name if attempts[-1]["exit_code"] == 0 else None, attempts)


def _lexically_stray(names: list[bytes]) -> bytes | None:
    return next((name for name in names if not is_safe(name)), None)


async def _try(git: BoxGit, rung: Rung, patch_path: str) -> dict[str, Any]:
    result = await git.run(rung.command, env={"PATCH": patch_path}, merge_stderr=True, output_bytes=8000)
    return attempt_record(rung, result)


def attempt_record(rung: Rung, result: ExecResult) -> dict[str, Any]:
    """What became of one rung, as plain data; the output is cut to its last 2000 characters."""
    ended = {} if result.status == "exited" else {"status": result.status}
    return {"rung": rung.name, "exit_code": result.exit_code, **ended, "output": result.stdout.strip()[-2000:]}


def _is_atomic(rung: Rung) -> bool:
    """Whether it leaves nothing behind where it fails; ``--3way`` leaves conflicts, ``--reject`` half of the patch."""
    return rung.command.startswith("git apply ") and not {"--3way", "-3", "--reject"} & set(rung.command.split())


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")
