"""Git in a box, deaf to whatever configuration a hostile repository or user brings along."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterable, Sequence

from swe_sdk.errors import SandboxLost
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import Box

GIT_TIMEOUT_S = 120.0
"""For each single git command; those of the largest repositories take seconds."""

_OVERRIDES = (
    "core.hooksPath=/dev/null",  # checkout runs post-checkout hooks
    "core.fsmonitor=false",  # else a program named by the repository runs on each status
    "gc.auto=0",
    "maintenance.auto=false",
)
_FLAGS = [word for setting in _OVERRIDES for word in ("-c", setting)]
_USER_CONFIG = b"[safe]\n\tdirectory = *\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"

_CLEAR = """
for path do
  rest=$path parent=.
  while case $rest in */*) true ;; *) false ;; esac; do
    parent=$parent/${rest%%/*} rest=${rest#*/}
    if [ -L "$parent" ] || { [ -e "$parent" ] && [ ! -d "$parent" ]; }; then rm -f -- "$parent" || exit 1; break; fi
  done
  rm -rf -- "./$path" || exit 1
done
"""
"""Remove paths, whatever they are; a parent that is no directory (a link to elsewhere) goes first, so that nothing is
ever removed through it."""

_RESTORE = f"""
commit=$1 listed=$2
shift 2
git() {{ command git {shlex.join(_FLAGS)} --literal-pathspecs "$@"; }}
git ls-tree -r -z --full-tree --name-only "$commit" -- "$@" > "$listed" || exit 1
{_CLEAR}
[ ! -s "$listed" ] || xargs -0 git {shlex.join(_FLAGS)} --literal-pathspecs checkout -q -f "$commit" -- < "$listed"
"""

_BEHIND_A_LINK = """
for path do
  rest=$path parent=.
  while case $rest in */*) true ;; *) false ;; esac; do
    parent=$parent/${rest%%/*} rest=${rest#*/}
    if [ -L "$parent" ]; then printf '%s\\0' "$path"; break; fi
  done
done
"""


def safe_paths(paths: Iterable[bytes]) -> list[bytes]:
    """Those that stay within the repository and out of its ``.git``."""
    return [path for path in paths if is_safe(path)]


def is_safe(path: bytes) -> bool:
    """Whether a path from a patch is relative, never leaves the repository and does not name a ``.git``."""
    parts = path.split(b"/")
    return bool(path) and b"\0" not in path and not any(p in (b"", b"..") or p.lower() == b".git" for p in parts)


class BoxGit:
    """The repository at a box's workdir, and a private directory of ours beside it.

    Global and system configuration are replaced by a private file: an empty ``GIT_CONFIG_GLOBAL=/dev/null`` is not
    understood by every git that images have, a private ``HOME`` is. ``safe.directory`` stands in that file because git
    2.35 to 2.37 ignores it on the command line.
    """

    def __init__(self, box: Box) -> None:
        self.box = box
        self.private = f"/tmp/swe-sdk-{secrets.token_hex(8)}"  # in the box, and unguessable
        home = f"{self.private}/home"
        self.env = {
            "HOME": home,
            "XDG_CONFIG_HOME": f"{home}/.config",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
        }

    async def set_up(self) -> None:
        """Write the private configuration; call it once, before anything else."""
        await self.box.write(f"{self.private}/home/.gitconfig", _USER_CONFIG)

    async def write(self, name: str, data: bytes) -> str:
        """Put a file into the private directory; returns its path in the box."""
        path = f"{self.private}/{name}"
        await self.box.write(path, data)
        return path

    async def git(self, *args: str, output_bytes: int = 1 << 20) -> ExecResult:
        """Run one git command in the repository."""
        return await self.run(["git", *_FLAGS, *args], output_bytes=output_bytes)

    async def clear(self, paths: Iterable[bytes]) -> ExecResult:
        """Remove paths of the repository: files, links or whole directories."""
        return await self.over(paths, ["sh", "-c", _CLEAR, "clear"])

    async def restore(self, paths: Iterable[bytes], commit: str) -> ExecResult:
        """Bring paths of the repository to their state in a commit, whatever they are now; those it lacks are gone."""
        return await self.over(paths, ["sh", "-c", _RESTORE, "restore", commit, f"{self.private}/listed"])

    async def behind_a_link(self, paths: Iterable[bytes]) -> bytes | None:
        """The first of ``paths`` that leads through a symbolic link, as they are in the working tree now."""
        result = await self.over(safe_paths(paths), ["sh", "-c", _BEHIND_A_LINK, "links"])
        return result.stdout_bytes.split(b"\0")[0] or None

    async def over(self, paths: Iterable[bytes], command: Sequence[str], *, output_bytes: int = 1 << 20) -> ExecResult:
        """Run a command with ``paths`` as its last arguments; not at all where there is none."""
        listed = b"".join(path + b"\0" for path in paths)
        return await self.run(["xargs", "-0", "-r", *command], stdin=listed, output_bytes=output_bytes)

    async def run(
        self,
        command: str | Sequence[str],
        *,
        env: dict[str, str] | None = None,
        stdin: bytes | None = None,
        output_bytes: int = 1 << 20,
        merge_stderr: bool = False,
    ) -> ExecResult:
        """Run any command in the repository, with git's surroundings made safe.

        ``SandboxLost`` where the box dies under it.
        """
        result = await self.box.exec(
            command,
            env={**self.env, **(env or {})},
            stdin=stdin,
            timeout_s=GIT_TIMEOUT_S,
            output_bytes=output_bytes,
            merge_stderr=merge_stderr,
        )
        return require_alive(result)


def problem(result: ExecResult) -> str:
    """How a command of ours failed, for a reader: its own words, and how it ended where that was not by itself."""
    words = (result.stderr or result.stdout).strip()[-2000:]
    return words if words and result.status == "exited" else f"it {result.summary} {words}".strip()


def require_alive(result: ExecResult) -> ExecResult:
    """The result, unless the sandbox died under the command (``SandboxLost``)."""
    if result.status == "lost":
        raise SandboxLost("the sandbox died while a command of the grader ran in it")
    return result
