"""Hidden tests in an image never get into a box that an agent has; graders' boxes keep them."""

from __future__ import annotations

import pytest

from swe_sdk.errors import CreateFailed
from swe_sdk.model.environment import ImageEnvironment
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.sandbox import Sandbox
from swe_sdk.testing.fake import Command, FakeProvider, MemoryBox, Reply

pytestmark = pytest.mark.anyio

ENVIRONMENT = ImageEnvironment(image="an:image", hidden=("/r2e_tests", "/run tests.sh"))


async def test_they_are_removed_before_anybody_is_let_in() -> None:
    asked: list[str] = []

    def answer(command: Command, box: MemoryBox) -> Reply:
        asked.append(command)
        return b""

    provider = FakeProvider(handler=answer)
    async with Sandbox(ENVIRONMENT, provider=provider):
        assert "rm -rf -- /r2e_tests '/run tests.sh'" in asked
    asked.clear()
    async with Sandbox(ImageEnvironment(image="an:image"), provider=provider):
        assert not any(command.startswith("rm ") for command in asked)


async def test_a_box_that_keeps_them_is_not_handed_out() -> None:
    def answer(command: Command, box: MemoryBox) -> Reply:
        failed = ExecResult(status="exited", exit_code=1, stderr_bytes=b"busy", duration_s=0.0)
        return failed if command.startswith("rm ") else b""

    provider = FakeProvider(handler=answer)
    with pytest.raises(CreateFailed, match="hidden tests in the image could not be removed"):
        async with Sandbox(ENVIRONMENT, provider=provider):
            raise AssertionError("nobody may get in")
    assert not provider.live
