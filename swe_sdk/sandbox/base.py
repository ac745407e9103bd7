"""Which commit an image's repository is at, before anybody has worked in it.

An environment that we build records its base commit. Of an image only its boxes can tell: ``HEAD``, which is another
commit as soon as an agent commits. So it is looked up in a box that nobody has used yet.
"""

from __future__ import annotations

import anyio

from swe_sdk.errors import ResetFailed, SandboxLost
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.build import BASE_PATH
from swe_sdk.sandbox.contract import Box, SandboxProvider
from swe_sdk.sandbox.prepared import PreparedEnvironment

LOOK_UP_TIMEOUT_S = 60.0


async def pin_base(box: Box, prepared: PreparedEnvironment) -> PreparedEnvironment:
    """The environment with its base commit by id, looked up in a ``box`` of it that nobody has used yet.

    Where the environment names a commit, the repository is reset to it first: tracked files only, as what the image has
    built beside them is needed. Unchanged where the id is known already, and where there is no repository. Raises
    ``ResetFailed``, and ``SandboxLost`` if the box dies.
    """
    if prepared.image is not None and prepared.reset_to is not None:
        await _reset(box, prepared.workdir, prepared.reset_to)
    if not prepared.base_is_open:
        return prepared
    result = await _git(box, prepared.workdir, "rev-parse", "--verify", "-q", "HEAD^{commit}")
    return prepared.model_copy(update={"base_commit": result.stdout.strip()}) if result.ok else prepared


async def _reset(box: Box, workdir: str, commit: str) -> None:
    found = await _git(box, workdir, "rev-parse", "--verify", "-q", f"{commit}^{{commit}}")
    result = await _git(box, workdir, "reset", "-q", "--hard", found.stdout.strip()) if found.ok else found
    if not result.ok:
        why = result.stderr.strip()[-500:] or "there is no such commit"
        raise ResetFailed(f"the repository of the image cannot be reset to {commit}: {why}")


async def _git(box: Box, workdir: str, *args: str) -> ExecResult:
    """Git asks whose repository it is, unless it is told where it is; and no configuration of anybody matters."""
    env = {"PATH": ":".join(BASE_PATH), "HOME": "/", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    git = ["git", "--git-dir", f"{workdir}/.git", "--work-tree", workdir, "-c", "core.hooksPath=/dev/null", *args]
    command = ["env", "-i", *(f"{name}={value}" for name, value in env.items()), *git]
    result = await box.exec(command, cwd=workdir if args[0] == "reset" else "/", timeout_s=LOOK_UP_TIMEOUT_S)
    if result.status == "lost":
        raise SandboxLost("the sandbox died while its base commit was looked up")
    return result


async def pin_base_in_new_box(provider: SandboxProvider, prepared: PreparedEnvironment) -> PreparedEnvironment:
    """The same, where the only box at hand has been worked in: one more is made for it, and closed."""
    if not prepared.base_is_open:
        return prepared
    box = await provider.create(prepared.spec())
    try:
        return await pin_base(box, prepared)
    finally:
        with anyio.CancelScope(shield=True):
            await box.close()
