"""Patches of boxes on images: against the commit that the image has checked out, whatever an agent commits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import swe_sdk.aio as swe
from swe_sdk.errors import TransferFailed
from swe_sdk.model.environment import ImageEnvironment
from swe_sdk.model.patch import EMPTY_PATCH, Patch
from swe_sdk.sandbox.base import pin_base
from swe_sdk.sandbox.environments import prepare
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.grading import tiny
from tests.sandbox.docker.images import debian_image
from tests.sandbox.images.engine import changed, pushed
from tests.sandbox.images.oci import LiveRegistry

pytestmark = pytest.mark.anyio
_COMMIT = "git -c user.name=t -c user.email=t@t commit -q"
_SET_UP = f"""
mkdir /testbed && cd /testbed && git init -q -b main
cat > src.txt <<'X'
{tiny.SRC}X
mkdir tests
cat > tests/check.sh <<'X'
{tiny.CHECK}X
git add -A && {_COMMIT} -m base
chmod 700 .git/objects
"""


@pytest.fixture(scope="module")
def made() -> Iterator[str]:
    """The repository of the tiny task on Debian, committed by root of a real container."""
    with changed(debian_image(), _SET_UP) as image:
        yield image


@pytest.fixture(scope="module")
def image(made: str, registry: LiveRegistry) -> str:
    return pushed(made, registry.host, "tiny")


async def test_a_patch_is_taken_against_the_images_commit(provider: LocalProvider, image: str) -> None:
    await check_patches(provider, image)


async def test_it_is_the_same_in_docker(made: str, tmp_path: Path) -> None:
    provider = DockerProvider(state=tmp_path)
    try:
        await check_patches(provider, made)
    finally:
        await provider.aclose()


async def check_patches(provider: LocalProvider | DockerProvider, image: str) -> None:
    async with swe.Sandbox(ImageEnvironment(image=image), provider=provider) as box:
        base = box.base_commit
        assert len(base) == 40
        assert (await box.exec("git rev-parse HEAD")).stdout.strip() == base
        await box.exec(f"sed -i s/41/42/ src.txt; {_COMMIT} -am fix; echo more > new.txt")
        patch = await box.diff()
        assert [file.new for file in patch.files] == [b"new.txt", b"src.txt"]
        async with await box.fork() as twin:
            assert twin.base_commit == base
            assert await twin.diff() == patch
        snapshot = await box.snapshot()
    async with swe.Sandbox(ImageEnvironment(image=image), provider=provider, snapshot=snapshot) as again:
        assert (await again.exec("git rev-parse HEAD")).stdout.strip() != base
        assert again.base_commit == base
        assert await again.diff() == patch
    await provider.delete_snapshot(snapshot.id)


async def test_without_a_repository_there_is_no_patch(provider: LocalProvider, image: str) -> None:
    async with swe.Sandbox(ImageEnvironment(image=image, workdir="/srv"), provider=provider) as box:
        assert box.base_commit == "HEAD"
        with pytest.raises(TransferFailed, match="no repository at /srv"):
            await box.diff()


async def test_what_a_repository_configures_does_not_run(provider: LocalProvider, image: str) -> None:
    async with swe.Sandbox(ImageEnvironment(image=image), provider=provider) as box:
        base = box.base_commit
        await box.exec(
            "git config core.fsmonitor 'touch /tmp/ran'; git config alias.rev-parse '!touch /tmp/ran';"
            "git config core.worktree /elsewhere; printf '#!/bin/sh\ntouch /tmp/ran' > .git/hooks/post-checkout"
        )
        prepared = await prepare(provider, ImageEnvironment(image=image))
        assert (await pin_base(box.box, prepared)).base_commit == base
        assert not (await box.exec("test -e /tmp/ran")).ok


async def test_tasks_on_images_are_graded(provider: LocalProvider, image: str, tmp_path: Path) -> None:
    task = tiny.make_task(tmp_path / "sources")
    on_image = task.model_copy(update={"environment": ImageEnvironment(image=image)})
    for one in (task, on_image):
        for patch, wanted in (
            (Patch.of(tiny.GOLD), "resolved"),
            (Patch.of(tiny.WRONG), "unresolved"),
            (EMPTY_PATCH, "unresolved"),
        ):
            outcome = await swe.grade(one, patch, provider=provider)
            assert (outcome.status, outcome.mask) == (wanted, None)
