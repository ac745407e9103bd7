"""Boxes on images that are lent to agents: no future, no hidden tests, and nothing foreign in their patches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from swe_sdk.agents.scripted import Exec, ScriptedAgent
from swe_sdk.errors import InputError
from swe_sdk.model.environment import ImageEnvironment
from swe_sdk.rollouts.engine import run_rollout
from swe_sdk.rollouts.settings import RolloutSettings
from swe_sdk.sandbox import history
from swe_sdk.sandbox.contract import Box, SandboxProvider
from swe_sdk.sandbox.environments import prepare
from swe_sdk.sandbox.lent_environment import LentEnvironment, LentEnvironments, open_lent_box
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.sandbox.tree import take_patch
from swe_sdk.testing.fake import FakeProvider
from tests.grading import tiny
from tests.sandbox.docker.images import debian_image
from tests.sandbox.images.engine import changed, pushed
from tests.sandbox.images.oci import LiveRegistry

pytestmark = pytest.mark.anyio
_COMMIT = "git -c user.name=t -c user.email=t@t commit -q"
_SET_UP = f"""
mkdir -p /testbed/tests /hidden && cd /testbed && git init -q -b main
cat > src.txt <<'X'
{tiny.SRC}X
cat > tests/check.sh <<'X'
{tiny.CHECK}X
echo '*.o' > .gitignore
git add -A && {_COMMIT} -m base
sed -i s/41/42/ src.txt && {_COMMIT} -am 'the fix' && git tag fixed && git reset -q --hard HEAD~
echo built > built.txt; touch a.o; mkdir out; echo x > out/x; echo sed >> tests/check.sh
echo secret > /hidden/test.py
"""
SETTINGS = RolloutSettings(retries=0)


@pytest.fixture(scope="module")
def made() -> Iterator[str]:
    with changed(debian_image(), _SET_UP) as image:
        yield image


@pytest.fixture(scope="module")
def broken(made: str) -> Iterator[str]:
    """The same, but the repository lies elsewhere, so that nobody can say what else is in it."""
    with changed(made, "mv /testbed/.git /srv/repository && echo gitdir: /srv/repository > /testbed/.git") as image:
        yield image


@pytest.fixture(params=["local", "docker", "without snapshots"])
def place(
    request: pytest.FixtureRequest, provider: LocalProvider, registry: LiveRegistry, tmp_path: Path
) -> Iterator[Any]:
    """A provider, and what makes an image known to it."""
    if request.param == "docker":
        docker = DockerProvider(state=tmp_path / "docker")
        yield docker, lambda image: image

        async def end() -> None:
            for snapshot in await docker.snapshots():
                await docker.delete_snapshot(snapshot.id)
            await docker.aclose()

        anyio.run(end)
        return
    push = lambda image: pushed(image, registry.host, f"lent-{image.split(':')[1]}")  # noqa: E731
    yield (provider if request.param == "local" else FakeProvider(inner=provider, capabilities=())), push
    for record in provider.store.records.snapshots():
        provider.store.delete_snapshot(record.id)


async def lent_box(
    provider: SandboxProvider, environment: ImageEnvironment, lending: LentEnvironments
) -> tuple[Box, LentEnvironment]:
    lent = await lending.get(provider, environment, await prepare(provider, environment))
    box = await provider.create(lent.prepared.spec())
    return box, await open_lent_box(lending, box, environment, lent)


async def test_agents_see_no_future_and_leave_nothing_foreign(
    place: Any, made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, known = place
    environment = ImageEnvironment(image=known(made), hidden=("/hidden",))
    scrubs = count_scrubs(monkeypatch)
    for lending in (LentEnvironments(), LentEnvironments()):  # the second as another process would
        box, lent = await lent_box(provider, environment, lending)
        try:
            await check_box(box, lent)
        finally:
            await box.close()
    assert len(scrubs) == (1 if "snapshots" in provider.capabilities else 2)
    task = tiny.make_task(tmp_path / "sources").model_copy(update={"environment": environment})
    cheat = ScriptedAgent(actions=(Exec(command="git checkout -q fixed -- src.txt"),))
    fix = ScriptedAgent(actions=(Exec(command="sed -i s/41/42/ src.txt; touch b.o"),))
    ruin = ScriptedAgent(actions=(*fix.actions, Exec(command="rm -rf .git; sleep 600 &")))
    right = ("resolved", [b"src.txt"])
    for agent, (wanted, touched) in ((fix, right), (cheat, ("unresolved", [])), (ruin, right)):
        result = await run_rollout(task, agent, provider=provider, settings=SETTINGS)
        assert (result.outcome.status, result.outcome.mask) == (wanted, None)
        assert [file.new for file in result.patch.files] == touched


async def check_box(box: Box, lent: LentEnvironment) -> None:
    base = (await box.exec("git rev-parse HEAD")).stdout.strip()
    assert lent.prepared.base_commit == base
    assert not (await box.exec("git cat-file -e fixed")).ok
    assert (await box.exec("git log --all --format=%s")).stdout == "base\n"
    status = (await box.exec("git status --short")).stdout.split()
    assert status == ["M", "tests/check.sh", "??", "built.txt", "??", "out/"]
    assert not (await box.exec("test -e /hidden")).ok
    await box.exec("echo more >> built.txt; echo new > out/new; echo x >> src.txt")
    patch = await take_patch(box, workdir="/testbed", base_commit=base, before=lent.before)
    assert [file.new for file in patch.files] == [b"out/new", b"src.txt"]


def count_scrubs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    scrubs, scrub = list[str](), history.scrub

    async def counted(box: Box, workdir: str, base_commit: str) -> None:
        scrubs.append(base_commit)
        await scrub(box, workdir, base_commit)

    monkeypatch.setattr(history, "scrub", counted)
    return scrubs


async def test_an_image_that_cannot_be_scrubbed_is_lent_to_nobody(
    provider: LocalProvider, registry: LiveRegistry, broken: str, tmp_path: Path
) -> None:
    environment = ImageEnvironment(image=pushed(broken, registry.host, "lent-broken"))
    task = tiny.make_task(tmp_path / "sources").model_copy(update={"environment": environment})
    result = await run_rollout(task, "noop", provider=provider, settings=SETTINGS)
    assert result.outcome.mask is not None
    assert result.outcome.mask.kind == "environment_failed"
    assert "scrub the history" in result.outcome.mask.reason
    prepared = await prepare(provider, environment.model_copy(update={"workdir": "/srv"}))
    with pytest.raises(InputError, match="no git repository at /srv"):
        await LentEnvironments().get(provider, environment.model_copy(update={"workdir": "/srv"}), prepared)
    assert list(provider.boxes) == []
