"""Files that the tests left behind in a folder of the grader's: read out of the box, never through the log.

Whatever a program prints can look like a results file, so none is taken from the output. The folder's name is new for
each run; a submission that reads its own environment can find it all the same, which ``docs/families.md`` says.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from fnmatch import fnmatchcase

from swe_sdk.grading.box_git import BoxGit, require_alive

VARIABLE = "SWE_SDK_REPORTS"
"""The variable by which the test command knows the folder."""

MAX_ARCHIVE_BYTES = 64 << 20
_MAX_FILES = 10_000
_READ_TIMEOUT_S = 60.0


def folder(git: BoxGit) -> str:
    """The folder in the box."""
    return f"{git.private}/results"


def shell_lines(git: BoxGit) -> str:
    """What the shell that runs the tests must do first."""
    return f'rm -rf "{folder(git)}"; mkdir -p "{folder(git)}"; export {VARIABLE}="{folder(git)}"\n'


async def read_result_files(git: BoxGit, patterns: Sequence[str]) -> dict[str, bytes]:
    """The regular files at the top of the folder whose names match one of ``patterns``, by name.

    Nothing where the folder is gone, is no folder, or holds more than :data:`MAX_ARCHIVE_BYTES`. Raises
    ``SandboxLost``.
    """
    path = folder(git)
    command = ["sh", "-c", f'[ -d "{path}" ] && [ ! -L "{path}" ] && exec tar -C "{path}" -cf - .']
    result = await git.box.exec(command, cwd="/", timeout_s=_READ_TIMEOUT_S, output_bytes=2 * MAX_ARCHIVE_BYTES)
    require_alive(result)
    if not result.ok or result.truncated or len(result.stdout_bytes) > MAX_ARCHIVE_BYTES:
        return {}
    return unpacked(result.stdout_bytes, patterns)


def unpacked(archive: bytes, patterns: Sequence[str]) -> dict[str, bytes]:
    """The matching files of a tar archive that a box made; links, folders and broken archives give nothing."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                if not _is_plain(member) or not any(fnmatchcase(name, pattern) for pattern in patterns):
                    continue
                content = tar.extractfile(member)
                if content is not None and "/" not in name and len(found) < _MAX_FILES:
                    found[name] = content.read()
    except (tarfile.TarError, EOFError, OSError, ValueError):  # cut off, or no archive at all
        return found
    return found


def _is_plain(member: tarfile.TarInfo) -> bool:
    """Whether it is a regular file that really takes up its size in the archive: a sparse one could claim any."""
    return member.isreg() and not member.issparse() and member.size <= MAX_ARCHIVE_BYTES
