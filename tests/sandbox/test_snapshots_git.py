"""git does not take files for changed after a snapshot, wherever they were changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from swe_sdk.model.environment import DirectorySource, SourceEnvironment
from swe_sdk.sandbox.providers.local import freezing
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.anyio

IS_CLEAN = 'git diff-index --quiet HEAD && git diff-files --quiet && test -z "$(git status --porcelain)"'
EDIT = "for f in f1*; do echo edited >> $f; done; git -c user.name=a -c user.email=a@b commit -q -a -m edits"


@pytest.fixture
def environment(tmp_path: Path) -> SourceEnvironment:
    for number in range(300):
        (tmp_path / f"f{number}").write_text(f"file {number}\n")
    return SourceEnvironment(source=DirectorySource(path=str(tmp_path)), python=None)


async def require_clean(box: Sandbox, who: str) -> None:
    result = await box.exec(IS_CLEAN)
    assert result.ok, f"git takes files of {who} for modified: " + (await box.exec("git diff-files --name-only")).stdout


async def test_files_changed_in_place(environment: SourceEnvironment, local_provider: LocalProvider) -> None:
    async with Sandbox(environment, provider=local_provider) as box:
        await require_clean(box, "a new box")
        assert (await box.exec(EDIT)).ok
        snapshot = await box.snapshot()
        await require_clean(box, "the box")
        async with Sandbox(environment, provider=local_provider, snapshot=snapshot) as fork:
            await require_clean(fork, "a fork")
        async with await box.fork() as fork:
            await require_clean(fork, "a fork")
            assert (await fork.exec("git log --format=%s")).stdout.startswith("edits\n")


async def test_files_of_a_layer_that_was_copied(environment: SourceEnvironment, local_provider: LocalProvider) -> None:
    async with Sandbox(environment, provider=local_provider) as box:
        assert (await box.exec(f"{EDIT}; sleep 1000 > /dev/null 2>&1 &")).ok
        await box.exec("while pgrep -x git; do sleep 0.01; done")
        await box.pause()
        async with await box.fork() as fork:
            await require_clean(fork, "a fork")
        await box.resume()
        await require_clean(box, "the box")


async def test_files_of_a_chain_that_was_merged(
    environment: SourceEnvironment, local_provider: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freezing, "MAX_DEPTH", 4)
    async with Sandbox(environment, provider=local_provider) as box:
        for _ in range(6):
            assert (await box.exec(EDIT)).ok
            snapshot = await box.snapshot()
            await require_clean(box, "the box")
        async with Sandbox(environment, provider=local_provider, snapshot=snapshot) as fork:
            await require_clean(fork, "a fork")


async def test_a_real_change_is_still_seen(environment: SourceEnvironment, local_provider: LocalProvider) -> None:
    async with Sandbox(environment, provider=local_provider) as box:
        assert (await box.exec(f"{EDIT}; echo more >> f7; rm f8; echo new > new")).ok
        async with await box.fork() as fork:
            status = await fork.exec("git status --porcelain")
            assert status.stdout == " M f7\n D f8\n?? new\n"


async def test_a_repository_that_cannot_be_refreshed(
    environment: SourceEnvironment, local_provider: LocalProvider
) -> None:
    async with Sandbox(environment, provider=local_provider) as box:
        assert (await box.exec("rm -rf .git; rm f1")).ok
        async with await box.fork() as fork:
            assert (await fork.exec("ls f2 .git")).stdout == "f2\n"
