"""Tasks are built and graded in Apptainer boxes as they are in local ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from swe_sdk import aio
from swe_sdk.errors import MissingTool
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.sandbox.providers.apptainer.provider import ApptainerProvider
from swe_sdk.sandbox.providers.local.provider import LocalProvider

pytestmark = [pytest.mark.anyio, pytest.mark.network]
TASK = "mini__calc-1"


async def test_verdicts_are_those_of_the_local_provider(
    provider: ApptainerProvider, local_provider: LocalProvider
) -> None:
    task = load_tasks("mini")[TASK]
    for patch in (task.grading.gold_patch, task.grading.wrong_patch):
        assert patch is not None
        here = await aio.grade(task, patch, provider=provider)
        there = await aio.grade(task, patch, provider=local_provider)
        assert (here.status, here.mask) == (there.status, there.mask), here
        assert here.tests == there.tests
        assert here.status == ("resolved" if patch == task.grading.gold_patch else "unresolved")


async def test_a_task_is_worked_on_and_its_patch_taken(provider: ApptainerProvider) -> None:
    task = load_tasks("mini")[TASK]
    async with aio.Sandbox(task, provider=provider) as box:
        await box.exec("echo changed >> README.md; git status --porcelain")
        async with await box.fork() as twin:
            await twin.write_text("new.py", "x = 1\n")
            assert {file.new for file in (await twin.diff()).files} == {b"README.md", b"new.py"}
        assert {file.new for file in (await box.diff()).files} == {b"README.md"}


async def test_what_the_base_image_lacks_is_named(provider: ApptainerProvider, tmp_path: Path) -> None:
    with pytest.raises(MissingTool, match="node") as raised:
        await provider.toolchain(None, ["node"])
    assert raised.value.remedy
    with pytest.raises(MissingTool, match=r"3\.7"):
        await provider.toolchain("3.7", [])
    found = await provider.toolchain(">=3.8", [])
    assert found.python is not None
    assert not found.of_machine
    assert (await provider.toolchain(">=3.8", [])).fingerprint == found.fingerprint
