"""``swe.verify``: the server's answers without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

import swe_sdk as swe
from swe_sdk import aio
from swe_sdk.errors import CreateFailed, InputError, NoSpace, SandboxLost
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.server.models import VerifyRequest
from swe_sdk.testing import FakeProvider
from tests.grading.faulty import FaultyProvider, raises
from tests.grading.tiny import GOLD, WRONG
from tests.server.serving import NAME, post_body, slow_row, tiny_row

pytestmark = pytest.mark.anyio


@pytest.fixture
def tasks(tmp_path: Path) -> TaskSet:
    return load_tasks([tiny_row(tmp_path / "repo")])


def test_it_blocks_for_those_who_like_that(tasks: TaskSet, local_provider: LocalProvider) -> None:
    answer = swe.verify(post_body({"instance_id": NAME}, GOLD.decode()), tasks=tasks, provider=local_provider)
    assert (answer.reward, answer.resolved, answer.mask_sample, answer.patch_source) == (1.0, True, False, "metadata")


async def test_the_answer_holds_the_request(tasks: TaskSet, local_provider: LocalProvider) -> None:
    body = post_body({"instance_id": NAME}, text=f"```diff\n{WRONG.decode()}```", more={"x": [1, None]})
    for request in (body, VerifyRequest.model_validate(body)):
        answer = await aio.verify(request, tasks=tasks, provider=local_provider)
        told = answer.model_dump(mode="json", exclude_unset=True)
        assert {name: told[name] for name in body} == body
        assert (answer.reward, answer.status, answer.patch_source) == (0.0, "unresolved", "fence")


async def test_a_task_in_the_request_may_name_folders_of_the_callers_own_machine(
    tmp_path: Path, local_provider: LocalProvider
) -> None:
    answer = await aio.verify(post_body(tiny_row(tmp_path / "repo"), GOLD.decode()), provider=local_provider)
    assert (answer.reward, answer.task_source) == (1.0, "request")


@pytest.mark.parametrize(
    ("error", "failure_kind", "error_kind"),
    [
        (CreateFailed("no room"), "provider_unavailable", "sandbox"),
        (NoSpace("the disk is full"), "provider_quota_exhausted", "sandbox"),
        (SandboxLost("it died"), "swe_sdk:sandbox_lost", "sandbox"),
        (RuntimeError("a defect"), "verifier_error", "eval_error"),
    ],
)
async def test_infrastructure_is_masked(
    tasks: TaskSet, local_provider: LocalProvider, error: Exception, failure_kind: str, error_kind: str
) -> None:
    provider = FaultyProvider(local_provider.state, {"create": raises(error)})
    body = post_body({"instance_id": NAME}, GOLD.decode())
    answer = await aio.verify(body, tasks=tasks, provider=provider, retries=1)
    await provider.aclose()
    assert (answer.reward, answer.mask_sample, answer.eval_error) == (0.0, True, True)
    assert (answer.failure_kind, answer.error_kind) == (failure_kind, error_kind)
    assert provider.creates == (2 if answer.mask and answer.mask.retryable else 1)


async def test_an_engine_that_comes_back_in_time_is_waited_for(tasks: TaskSet, local_provider: LocalProvider) -> None:
    """The patience of a server, which has posts that wait; with its retries, two creates fail at once."""
    provider = FaultyProvider(local_provider.state, {"create": raises(CreateFailed("not yet"), times=3)})
    body = post_body({"instance_id": NAME}, GOLD.decode())
    answer = await aio.verify(body, tasks=tasks, provider=provider, retries=1, patience_s=30)
    await provider.aclose()
    assert (answer.reward, answer.mask_sample) == (1.0, False)
    assert provider.creates == 4


async def test_it_can_be_cancelled_and_leaves_no_box(tmp_path: Path, local_provider: LocalProvider) -> None:
    tasks = load_tasks([slow_row(tmp_path / "repo", 30)])
    with anyio.move_on_after(1.0) as scope:
        await aio.verify(
            post_body({"instance_id": "tiny__slow-1"}, GOLD.decode()), tasks=tasks, provider=local_provider
        )
    assert scope.cancelled_caught
    assert not local_provider.boxes


@pytest.mark.parametrize(
    ("body", "settings", "match"),
    [
        ({}, {}, "responses_create_params"),
        (post_body({"instance_id": "x"}), {}, "no recipe"),
        (post_body({"instance_id": NAME}), {"colour": "red"}, "colour"),
        (post_body({"instance_id": NAME}), {"tests_timeout_s": -1}, "tests_timeout_s"),
        (post_body({"instance_id": NAME}), {"policy": "kind"}, "policy"),
    ],
)
async def test_what_makes_no_sense_is_an_error(tasks: TaskSet, body: Any, settings: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        await aio.verify(body, tasks=tasks, provider=FakeProvider(), **settings)
