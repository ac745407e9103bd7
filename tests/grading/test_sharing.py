"""Concurrent grades: one execution for equal ones, none left behind, keys that tell all else apart."""

from __future__ import annotations

import anyio
import pytest

from swe_sdk.errors import NoSpace
from swe_sdk.grading.key import grading_key
from swe_sdk.grading.verify import grade
from swe_sdk.model.patch import Patch
from swe_sdk.model.policy import DEFAULT_POLICY, NEMO_GYM_POLICY
from swe_sdk.recipes.registry import get_recipe
from swe_sdk.recipes.swe_bench import SweBenchRecipe
from swe_sdk.store.results import Results
from tests.grading.tiny import GOLD, WRONG, make_task
from tests.shared import full_device

pytestmark = pytest.mark.anyio


async def grades(count, task, patch, provider, **options):
    outcomes = []

    async def one():
        outcomes.append(await grade(task, patch, provider=provider, **options))

    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(one)
    return outcomes


async def test_ten_equal_grades_make_one_box(faulty, task, results):
    provider = faulty()
    outcomes = await grades(10, task, GOLD, provider, results=results)
    assert [o.status for o in outcomes] == ["resolved"] * 10
    assert provider.creates == 1
    assert len({o.artifacts["log"] for o in outcomes}) == 1
    assert len(results.read()) == 10


async def test_one_changed_byte_makes_a_second_box(faulty, task):
    provider = faulty()
    await grade(task, GOLD, provider=provider)
    await grade(task, GOLD + b"\n", provider=provider)
    assert provider.creates == 2
    async with anyio.create_task_group() as group:
        for patch in (GOLD, WRONG, GOLD, WRONG):
            group.start_soon(lambda patch=patch: grade(task, patch, provider=provider))
    assert provider.creates == 4


async def test_unshared_grades_run_for_themselves(faulty, task):
    provider = faulty()
    await grades(3, task, GOLD, provider, share=False)
    assert provider.creates == 3


async def test_reuse_must_be_asked_for(faulty, task):
    provider = faulty()
    first = await grade(task, GOLD, provider=provider, reuse=True)
    assert await grade(task, GOLD, provider=provider, reuse=True) == first
    assert provider.creates == 1
    await grade(task, GOLD, provider=provider)
    assert provider.creates == 2


async def test_each_sink_hears_of_a_shared_outcome(faulty, task, tmp_path):
    provider, sinks, outcomes = faulty(), [Results(tmp_path / name) for name in "ab"], []

    async def one(sink):
        outcomes.append(await grade(task, GOLD, provider=provider, results=sink))

    async with anyio.create_task_group() as group:
        for sink in sinks:
            group.start_soon(one, sink)
    assert provider.creates == 1
    assert [sink.read() for sink in sinks] == [[outcomes[0]], [outcomes[0]]]


async def test_cancelled_grade_leaves_no_box(faulty, tmp_path):
    provider = faulty()
    task = make_task(tmp_path / "repo", test_command="sleep 1000")
    await grade(task, b"", provider=provider, tests_timeout_s=0.1)
    for share in (True, False):
        before = provider.creates
        with anyio.move_on_after(0.5) as scope:
            await grade(task, GOLD, provider=provider, share=share)
        assert scope.cancelled_caught
        assert provider.creates == before + 1
        assert provider.live == 0
        assert not provider.boxes


async def test_cancelled_leader_leaves_the_work_to_the_others(faulty, tmp_path):
    provider = faulty()
    task = make_task(tmp_path / "repo", test_command="sleep 0.7; sh tests/check.sh")
    outcomes = []
    leader = anyio.CancelScope()

    async def lead():
        with leader:
            await grade(task, GOLD, provider=provider)

    async def follow():
        outcomes.append(await grade(task, GOLD, provider=provider))

    async with anyio.create_task_group() as group:
        group.start_soon(lead)
        await anyio.sleep(0.3)
        group.start_soon(follow)
        await anyio.sleep(0.1)
        leader.cancel()
    assert [o.status for o in outcomes] == ["resolved"]
    assert provider.creates == 1


class FullSink(Results):
    def __init__(self, path, full):
        super().__init__(path)
        self.full = full

    def folder(self, instance_id, key):
        return self._unless("folder", super().folder, instance_id, key)

    def save(self, folder, patch, outcome):
        return self._unless("save", super().save, folder, patch, outcome)

    def append(self, outcome):
        return self._unless("append", super().append, outcome)

    def _unless(self, name, method, *args):
        if name == self.full:
            raise NoSpace("the disk is full")
        return method(*args)


@pytest.mark.parametrize("full", ["folder", "save", "append"])
async def test_what_cannot_be_kept_is_not_reported_as_measured(provider, task, tmp_path, full):
    outcome = await grade(task, GOLD, provider=provider, results=FullSink(tmp_path / "r", full))
    assert (outcome.status, outcome.mask.kind) == ("masked", "no_space")


class FullLog(Results):
    def folder(self, instance_id, key):
        folder = super().folder(instance_id, key)
        (folder / "test.log").symlink_to(full_device())
        return folder


async def test_log_that_cannot_be_kept_masks(provider, tmp_path):
    """However the output is buffered on its way: none of it may be missing from a verdict unnoticed."""
    full_device()  # a skip from within the grade would be taken for its failure
    for command in ("sh tests/check.sh", "sh tests/check.sh; head -c 1000000 /dev/zero"):
        task = make_task(tmp_path / "repo", test_command=command)
        outcome = await grade(task, GOLD, provider=provider, results=FullLog(tmp_path / "r"), retries=0)
        assert outcome.masked, outcome
        assert (outcome.mask.stage, outcome.mask.kind) == ("tests", "no_space")


def key_of(task, patch=GOLD, **changes):
    parts = {
        "recipe": get_recipe("swe-bench"),
        "policy": DEFAULT_POLICY,
        "provider": "local",
        "environment_key": "e",
        "bounds": {"tests": 1.0},
    }
    return grading_key(task, Patch.of(patch), **{**parts, **changes})


def test_key_covers_the_whole_input(tmp_path):
    task = make_task(tmp_path / "repo")
    grading = task.grading
    changed_grading = [
        {"test_patch": Patch.of(WRONG)},
        {"fail_to_pass": ("other",)},
        {"pass_to_pass": ()},
        {"prelude": "true"},
        {"test_command": "true"},
        {"parser": "unittest"},
        {"eval_type": "fail_only"},
    ]
    changed_task = [
        {"base_commit": "1" * 40},
        {"family": "other"},
    ]
    keys = [
        key_of(task),
        key_of(task, WRONG),
        *(key_of(task.model_copy(update={"grading": grading.model_copy(update=u)})) for u in changed_grading),
        *(key_of(task.model_copy(update=update)) for update in changed_task),
        key_of(task, policy=NEMO_GYM_POLICY),
        key_of(task, provider="docker"),
        key_of(task, environment_key="f"),
        key_of(task, environment_key=None),
        key_of(task, bounds={"tests": 2.0}),
        key_of(task, bounds={"tests": 1.0, "disk_mib": 5}),
        key_of(task, recipe=SweBenchRecipe("4.1.0")),
        key_of(task, recipe=None),
    ]
    assert len(set(keys)) == len(keys)
    moved = task.model_copy(update={"environment": task.environment.model_copy(update={"workdir": "/elsewhere"})})
    assert key_of(moved) == key_of(task)  # a ready environment has a key of its own, which says it all
    assert key_of(moved, environment_key=None) != key_of(task, environment_key=None)
    assert key_of(task) == key_of(make_task(tmp_path / "repo"))
