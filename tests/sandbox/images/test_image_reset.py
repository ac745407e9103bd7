"""A repository in an image is brought to the task's commit before anybody gets in; else nothing counts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import swe_sdk.aio as swe
from swe_sdk.errors import ResetFailed
from swe_sdk.model.environment import ImageEnvironment
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import GradingSpec, Task
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.grading import tiny
from tests.sandbox.docker.images import debian_image
from tests.sandbox.images.engine import changed, pushed
from tests.sandbox.images.oci import LiveRegistry

pytestmark = pytest.mark.anyio
_COMMIT = "git -c user.name=t -c user.email=t@t commit -q"
_SET_UP = f"""
mkdir /app && cd /app && git init -q -b main && printf 'built/\\n' > .gitignore
cat > src.txt <<'X'
{tiny.SRC}X
mkdir tests built && echo prebuilt > built/file
cat > tests/check.sh <<'X'
{tiny.CHECK}X
git add -A && {_COMMIT} -m base && git tag base
echo later > src.txt && {_COMMIT} -am later
echo dirty >> tests/check.sh
"""


@pytest.fixture(scope="module")
def image(registry: LiveRegistry) -> Iterator[str]:
    """The repository of the tiny task, one commit further than the task's."""
    with changed(debian_image(), _SET_UP) as made:
        yield pushed(made, registry.host, "reset")


async def test_a_box_starts_at_the_tasks_commit(provider: LocalProvider, image: str) -> None:
    environment = ImageEnvironment(image=image, workdir="/app", base="base")
    async with swe.Sandbox(environment, provider=provider) as box:
        assert await box.read_text("src.txt") == tiny.SRC
        assert await box.read_text("tests/check.sh") == tiny.CHECK
        assert await box.read_text("built/file") == "prebuilt\n", "what is not tracked stays"
        assert not (await box.diff()).exists
    async with swe.Sandbox(environment.model_copy(update={"base": None}), provider=provider) as box:
        assert await box.read_text("src.txt") == "later\n"
    with pytest.raises(ResetFailed, match="cannot be reset to nowhere"):
        async with swe.Sandbox(environment.model_copy(update={"base": "nowhere"}), provider=provider):
            raise AssertionError("nobody may get in")


async def test_grades_start_there_too_and_are_masked_where_that_fails(provider: LocalProvider, image: str) -> None:
    """SW-17"""
    grading = GradingSpec(
        test_patch=Patch.of(tiny.TEST_PATCH),
        fail_to_pass=("check::answer",),
        test_command="sh tests/check.sh",
        parser="parse_log_pytest",
    )
    environment = ImageEnvironment(image=image, workdir="/app", base="base")
    task = Task(instance_id="t", family="swe-bench", repo="t", environment=environment, grading=grading)
    assert (await swe.grade(task, tiny.GOLD, provider=provider, retries=0)).resolved
    lost = task.model_copy(update={"environment": environment.model_copy(update={"base": "nowhere"})})
    outcome = await swe.grade(lost, tiny.GOLD, provider=provider, retries=0)
    assert outcome.mask is not None
    assert (outcome.mask.kind, outcome.mask.stage) == ("reset_failed", "reset")
