"""Keep the grader's files its own: restore what the hidden tests touch, install them, take back a runner's files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from swe_sdk.errors import ResetFailed, TestPatchFailed
from swe_sdk.grading.box_git import BoxGit, problem, safe_paths
from swe_sdk.grading.build_files import MAX_BYTES, Change
from swe_sdk.grading.runner_files import build_files, runner_files, shadowing, touched_paths
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import GradingSpec
from swe_sdk.recipes.contract import Rung

_ARCHIVE_BYTES = 256 << 20
_PRESENT = """for path do if [ -e "$path" ] || [ -L "$path" ]; then printf '%s\\0' "$path"; fi; done"""

_PLAIN = ("sh", "-c", '[ -f "$1" ] && [ ! -L "$1" ] && exec cat -- "$1"')
_OF_GIT = ("git", "cat-file", "blob")
_LOOKED_INTO = 32
"""Of so many changed build files it is asked whether their change is harmless; the others are not."""


@dataclass(frozen=True)
class HeldTests:
    """The paths of the hidden tests, and a tar archive of those that exist."""

    paths: tuple[bytes, ...]
    archive: bytes


async def restore_test_files(git: BoxGit, base_commit: str, test_patch: Patch) -> None:
    """Bring every path of the test patch to its state in the base commit, whatever the model made of it.

    A path that the base lacks is removed, file, link or directory: else a file that the model put there would keep the
    hidden one out. Raises ``ResetFailed``, and what the sandbox raises.
    """
    await _restore(git, base_commit, touched_paths(test_patch))


@dataclass(frozen=True)
class Touched:
    """Changed paths by which a patch might bend its own verdict: hidden tests, and files that decide how tests run."""

    hidden: tuple[bytes, ...] = ()
    runner: tuple[bytes, ...] = ()


async def suspects(git: BoxGit, base_commit: str, paths: Sequence[bytes], spec: GradingSpec) -> Touched:
    """Those among the changed ``paths``. Raises ``ResetFailed``, and what the sandbox raises."""
    hidden = frozenset(touched_paths(spec.test_patch))
    builds = build_files(paths, spec)
    asked = safe_paths(paths if builds else shadowing(paths, spec))
    in_base = await git.over(asked, ["git", "--literal-pathspecs", "ls-tree", "-z", "--name-only", base_commit, "--"])
    if not in_base.ok or in_base.truncated:
        raise ResetFailed(f"could not read the base commit: {problem(in_base)}")
    known = frozenset(in_base.stdout_bytes.split(b"\0"))
    runner = runner_files(paths, spec, known)
    if builds:
        own = [path for path in paths if path not in hidden and path not in runner]
        harmless = await _harmless(git, base_commit, builds[:_LOOKED_INTO], own, known)
        runner = tuple(path for path in runner if path not in harmless)
    return Touched(tuple(path for path in paths if path in hidden), runner)


async def _harmless(
    git: BoxGit, base_commit: str, builds: Sequence[bytes], own: Sequence[bytes], in_base: frozenset[bytes]
) -> frozenset[bytes]:
    """The build files whose change says nothing of how tests run: as they lie there, not as the patch tells it."""
    asked = safe_paths([*builds, *own])
    listed = await git.over(asked, ["sh", "-c", _PRESENT, "present"], output_bytes=1 << 24)
    present = frozenset(listed.stdout_bytes.split(b"\0"))
    added = frozenset(path for path in own if path in present and path not in in_base)
    removed = frozenset(path for path in own if path not in present)
    harmless = set()
    for path in builds:
        after = await _content(git, [*_PLAIN, "plain"], path)
        before = await _content(git, _OF_GIT, base_commit.encode() + b":" + path) if path in in_base else b""
        if after is not None and before is not None and Change(path, before, after, added, removed).is_harmless:
            harmless.add(path)
    return frozenset(harmless)


async def _content(git: BoxGit, command: Sequence[str], path: bytes) -> bytes | None:
    """What the command prints of a file; None where it is no plain file, or a very large one."""
    result = await git.over(safe_paths([path]), command, output_bytes=4 * MAX_BYTES)
    return result.stdout_bytes if result.ok and not result.truncated else None


async def take_back(git: BoxGit, base_commit: str, paths: Sequence[bytes], gold: Patch | None) -> None:
    """Bring ``paths`` to the base, and those which the gold patch touches to its version.

    Where that part of the gold patch does not apply by itself, they stay as in the base. Raises ``ResetFailed``, and
    what the sandbox raises.
    """
    await _restore(git, base_commit, paths)
    golden = [path for path in safe_paths(touched_paths(gold)) if path in paths] if gold is not None else []
    if gold is not None and golden:
        only = [f"--include={_literally(path)}" for path in golden]
        await git.git("apply", *only, await git.write("gold.patch", gold.data))


def _literally(path: bytes) -> str:
    """A pattern of git's that matches this path alone."""
    return re.sub(r"([*?\[\\])", r"\\\1", path.decode("utf-8", "surrogateescape"))


async def _restore(git: BoxGit, base_commit: str, touched: Sequence[bytes]) -> None:
    restored = await git.restore(safe_paths(touched), base_commit)
    if not restored.ok:
        raise ResetFailed(f"could not bring the grader's files to the base commit: {problem(restored)}")


async def install_tests(git: BoxGit, test_patch: Patch, rung: Rung | None = None) -> None:
    """Apply the hidden test patch: by ``git apply`` alone, as the official harness does, or by the family's ``rung``.

    Raises ``TestPatchFailed``, and what the sandbox raises.
    """
    if not test_patch.exists:
        return
    path = await git.write("test.patch", test_patch.data)
    result = await (git.git("apply", path) if rung is None else git.run(rung.command, env={"PATCH": path}))
    if not result.ok and not (rung is not None and rung.tolerant):
        raise TestPatchFailed(f"the hidden test patch does not apply: {problem(result)}")


async def hold_tests(git: BoxGit, test_patch: Patch) -> HeldTests:
    """Take the installed hidden tests out of the box, to be put back when untrusted code has run.

    Raises ``TestPatchFailed``, and what the sandbox raises.
    """
    paths = safe_paths(touched_paths(test_patch))
    present = await git.over(paths, ["sh", "-c", _PRESENT, "present"], output_bytes=1 << 24)
    names = [name for name in present.stdout_bytes.split(b"\0") if name]
    archive = await git.over(names, ["tar", "-cf", "-", "--"], output_bytes=_ARCHIVE_BYTES)
    if not (present.ok and archive.ok) or present.truncated or archive.truncated:
        raise TestPatchFailed(f"the hidden tests could not be read back: {problem(archive)}")
    return HeldTests(tuple(paths), archive.stdout_bytes)


async def put_back_tests(git: BoxGit, held: HeldTests) -> None:
    """Bring the hidden tests to the state in which they were held; what was absent then goes.

    Raises ``TestPatchFailed``, and what the sandbox raises.
    """
    if not held.paths:
        return
    cleared = await git.clear(held.paths)
    unpacked = await git.run(["tar", "-xpf", "-"], stdin=held.archive) if held.archive else cleared
    if not (cleared.ok and unpacked.ok):
        raise TestPatchFailed(f"the hidden tests could not be put back: {problem(unpacked)}")
