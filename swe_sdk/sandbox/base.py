"""Which commit an image's repository is at, before anybody has worked in it.

An environment that we build records its base commit. Of an image only its boxes can tell: ``HEAD``, which is another
commit as soon as an agent commits. So it is looked up in a box that nobody has used yet.
"""

from __future__ import annotations

import anyio

from swe_sdk.errors import SandboxLost
from swe_sdk.sandbox.build import BASE_PATH
from swe_sdk.sandbox.contract import Box, SandboxProvider
from swe_sdk.sandbox.prepared import PreparedEnvironment

LOOK_UP_TIMEOUT_S = 60.0


async def pin_base(box: Box, prepared: PreparedEnvironment) -> PreparedEnvironment:
    """The environment with its base commit by id, looked up in a ``box`` of it that nobody has used yet.

    Unchanged where the id is known already, and where there is no repository. ``SandboxLost`` if the box dies.
    """
    if not prepared.base_is_open:
        return prepared
    # git asks whose repository it is, unless it is told where it is; and no configuration of anybody matters
    env = {"PATH": ":".join(BASE_PATH), "HOME": "/", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    look_up = ["git", "--git-dir", f"{prepared.workdir}/.git", "rev-parse", "--verify", "-q", "HEAD^{commit}"]
    command = ["env", "-i", *(f"{name}={value}" for name, value in env.items()), *look_up]
    result = await box.exec(command, cwd="/", timeout_s=LOOK_UP_TIMEOUT_S)
    if result.status == "lost":
        raise SandboxLost("the sandbox died while its base commit was looked up")
    return prepared.model_copy(update={"base_commit": result.stdout.strip()}) if result.ok else prepared


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
