"""Keep the hidden tests the grader's own: restore what they touch, install them, and report what the model touched."""

from __future__ import annotations

from dataclasses import dataclass

from swe_sdk.errors import ResetFailed, TestPatchFailed
from swe_sdk.grading.box_git import BoxGit, problem, safe_paths
from swe_sdk.model.patch import Patch

_RUNNER_FILES = frozenset(
    {b"conftest.py", b"pytest.ini", b".pytest.ini", b"tox.ini", b"setup.cfg", b"pyproject.toml"}
    | {b"sitecustomize.py", b"usercustomize.py"}
)
_ARCHIVE_BYTES = 256 << 20
_PRESENT = """for path do if [ -e "$path" ] || [ -L "$path" ]; then printf '%s\\0' "$path"; fi; done"""


@dataclass(frozen=True)
class HeldTests:
    """The paths of the hidden tests, and a tar archive of those that exist."""

    paths: tuple[bytes, ...]
    archive: bytes


def touched_paths(patch: Patch) -> tuple[bytes, ...]:
    """Every path of a patch, old names and new ones, without repeats."""
    return tuple(dict.fromkeys(path for file in patch.files for path in file.paths))


def tampered_paths(patch: Patch, test_patch: Patch) -> list[str]:
    """Paths by which a model's patch might bend its own verdict, sorted.

    Files of the hidden tests (what the model wrote there is replaced), and files that configure a Python test runner
    (left as they are, since honest patches change them too; a reader should know). Undecodable bytes are escaped.
    """
    hidden = set(touched_paths(test_patch))
    suspects = {path for path in touched_paths(patch) if path in hidden or _configures_a_runner(path)}
    return sorted(path.decode("utf-8", "backslashreplace") for path in suspects)


def _configures_a_runner(path: bytes) -> bool:
    name = path.rsplit(b"/", 1)[-1]
    return name in _RUNNER_FILES or name.endswith(b".pth")


async def restore_test_files(git: BoxGit, base_commit: str, test_patch: Patch) -> None:
    """Bring every path of the test patch to its state in the base commit, whatever the model made of it.

    A path that the base lacks is removed, file, link or directory: else a file that the model put there would keep the
    hidden one out. Raises ``ResetFailed``, and what the sandbox raises.
    """
    paths = safe_paths(touched_paths(test_patch))
    if not paths:
        return
    listing = await git.git_over(paths, "ls-tree", "-r", "-z", "--full-tree", "--name-only", base_commit, "--")
    if not listing.ok or listing.truncated:
        raise ResetFailed(f"could not read the base commit {base_commit}: {problem(listing)}")
    in_base = set(listing.stdout_bytes.split(b"\0"))
    cleared = await git.clear(paths)
    if not cleared.ok:
        raise ResetFailed(f"could not remove the test files: {problem(cleared)}")
    restored = await git.git_over([p for p in paths if p in in_base], "checkout", "-q", "-f", base_commit, "--")
    if not restored.ok:
        raise ResetFailed(f"could not restore the test files: {problem(restored)}")


async def install_tests(git: BoxGit, test_patch: Patch) -> None:
    """Apply the hidden test patch, by ``git apply`` alone, as the official harness does.

    Raises ``TestPatchFailed``, and what the sandbox raises.
    """
    if not test_patch.exists:
        return
    path = await git.write("test.patch", test_patch.data)
    result = await git.git("apply", path)
    if not result.ok:
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
