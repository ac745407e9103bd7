"""A look into an image that was killed says nothing of the image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from swe_sdk.errors import MissingTool, SandboxLost
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.image_toolchain import find_toolchain
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.sandbox.boxes import create, ok

pytestmark = pytest.mark.anyio

_KILLED_ONCE = """#!/bin/sh
[ -e /tmp/killed ] || { touch /tmp/killed; kill -9 $$; }
exec /usr/bin/python3 "$@"
"""


class Killing:
    """A box in which the first ``kills`` commands are killed."""

    def __init__(self, box: Any, kills: int) -> None:
        self.box, self.kills = box, kills

    async def exec(self, command: Sequence[str], **options: Any) -> ExecResult:
        if self.kills:
            self.kills -= 1
            command = ["/bin/sh", "-c", "kill -9 $$"]
        return await self.box.exec(command, **options)


async def look(provider: LocalProvider, kills: int, *tools: str) -> tuple[str, ...]:
    box = await create(provider)
    try:
        return (await find_toolchain(Killing(box, kills), "an-image", "key", None, tools)).fingerprint  # type: ignore[arg-type]
    finally:
        await box.close()


async def test_a_killed_look_is_tried_once_more(provider: LocalProvider) -> None:
    assert await look(provider, 1, "sh") == ("image:key", "sh")


async def test_a_look_that_is_killed_again_is_no_missing_tool(provider: LocalProvider) -> None:
    with pytest.raises(SandboxLost, match="ended by SIGKILL, twice"):
        await look(provider, 2, "sh")


async def test_what_is_not_there_is_missing(provider: LocalProvider) -> None:
    with pytest.raises(MissingTool, match="no-such-tool"):
        await look(provider, 0, "no-such-tool")


async def test_a_python_that_is_killed_does_not_count_as_absent(provider: LocalProvider) -> None:
    box = await create(provider, SandboxSpec(workdir="/tmp", env={"PATH": "/tmp/bin"}))
    try:
        await box.write("/tmp/bin/python3", _KILLED_ONCE.encode(), mode=0o755)
        await ok(box, "for tool in git tar ls touch; do /bin/ln -s /usr/bin/$tool /tmp/bin/; done")
        version = await ok(box, "/usr/bin/python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'")
        found = await find_toolchain(box, "an-image", "key", version.strip(), ())
    finally:
        await box.close()
    assert found.python is not None
