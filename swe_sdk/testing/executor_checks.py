"""What every executor must do, tried on a real one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio

from swe_sdk.executors.contract import Job, JobResult, Near, NodeInfo, Pool
from swe_sdk.testing.executor_lab import ExecutorLab
from swe_sdk.testing.executor_work import (
    COUNT,
    ECHO,
    FAIL,
    FAIL_WITH_NO_TEXT,
    NO_JSON,
    NO_TEXT,
    WAIT,
    WAIT_FOR,
)
from swe_sdk.testing.expect import NotApplicable, require
from swe_sdk.testing.tiny_task import GOLD, tiny_task

_LONG_S = 60.0


@dataclass(frozen=True)
class ExecutorCheck:
    """What must hold of every executor."""

    name: str
    about: str
    run: Callable[[ExecutorLab], Awaitable[None]]


_REGISTERED: list[ExecutorCheck] = []


def _check(run: Callable[[ExecutorLab], Awaitable[None]]) -> Callable[[ExecutorLab], Awaitable[None]]:
    _REGISTERED.append(ExecutorCheck(run.__name__, run.__doc__ or "", run))
    return run


@_check
async def what_goes_in_comes_out(lab: ExecutorLab) -> None:
    """JSON of any kind and size comes back as it was, under the job's own id."""
    given = {
        "text": "a\u0000ß\U0001f600",
        "numbers": [1, -2.5, 1e300],
        "deep": {"er": [None, True]},
        "big": "x" * 2**20,
    }
    async with lab.pool() as pool:
        one, two = await lab.all_of(pool, [Job(id="one", work=ECHO, input=given), Job(id="two", work=ECHO)])
    require(one.state == "done" and one.output == given, f"what came back is not what was given: {one.state}")
    require((one.id, two.id, two.output) == ("one", "two", {}), "results bear the ids of other jobs")
    require(one.node != "", "a result does not say where it ran")


@_check
async def results_come_as_jobs_finish(lab: ExecutorLab) -> None:
    """A slow job that was asked for first holds up no quick one, and ends when it is over."""
    seen: list[str] = []
    end = lab.scratch / "end"

    def note(result: JobResult) -> None:
        seen.append(result.id)
        if len(seen) == len(quick):
            end.touch()

    slow = Job(id="slow", work=WAIT_FOR, input={"file": str(end)}, deadline_s=_LONG_S)
    quick = [Job(id=f"quick {n}", work=WAIT, input={"seconds": 0}) for n in range(6)]
    async with lab.pool(workers=2) as pool:
        results = await lab.all_of(pool, [slow, *quick], note)
    require(all(result.state == "done" for result in results), f"not all are done: {[r.state for r in results]}")
    require(seen[-1] == "slow", f"quick jobs waited for the slow one: {seen}")


@_check
async def a_bad_job_stops_no_other(lab: ExecutorLab) -> None:
    """One that raises, one whose result cannot travel and one of no known work fail by themselves, and say why.

    What is in their results and errors need not be text that any encoding knows.
    """
    bad = [
        Job(id="raises", work=FAIL, input={"message": "on purpose"}),
        Job(id="raises no text", work=FAIL_WITH_NO_TEXT),
        Job(id="no json", work=NO_JSON),
        Job(id="no text", work=NO_TEXT),
        Job(id="no module", work="swe_sdk.no_such_module:work"),
        Job(id="no function", work=ECHO.replace("echo", "no_such_function")),
    ]
    good = [Job(id=f"good {n}", work=WAIT, input={"seconds": 0.1}) for n in range(4)]
    async with lab.pool() as pool:
        results = await lab.all_of(pool, [*bad, *good])
    for result in results:
        result.model_dump_json()
    states = {result.id: result.state for result in results}
    require(all(states[job.id] == "failed" for job in bad), f"a bad job did not fail: {states}")
    require(all(states[job.id] == "done" for job in good), f"a bad job took others along: {states}")
    error = results[0].error
    require(error is not None and (error.type, error.message) == ("ValueError", "on purpose"), f"it says {error}")


@_check
async def a_deadline_ends_a_job(lab: ExecutorLab) -> None:
    """It is cancelled where it runs, and has failed with a TimeoutError; its sandbox is gone."""
    async with lab.pool() as pool:
        for seconds in (3.0, 12.0, 48.0):  # on a slow machine it takes long to have a sandbox
            (result,) = await lab.all_of(pool, [lab.holding(_LONG_S, deadline_s=seconds)])
            if lab.running():
                break
    require(result.state == "failed" and result.error is not None, f"it is {result.state}")
    require(result.error is not None and result.error.type == "TimeoutError", f"it failed by {result.error}")
    await lab.require_nothing_left(reaped=False)


@_check
async def cancelling_one_ends_that_one(lab: ExecutorLab) -> None:
    """Its cleanup is over when ``run`` returns, and the others go on."""
    async with lab.pool(workers=2) as pool:
        others: list[JobResult] = []

        async def other() -> None:
            others.append(await pool.run(lab.holding(4.0)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as cancelled:
                    cancelled.start_soon(pool.run, lab.holding(_LONG_S))
                    await lab.until_held(2)
                    scope.cancel()
            require(scope.cancelled_caught, "the job was over before it was cancelled")
    require([result.state for result in others] == ["done"], f"the other one is {others}")
    await lab.require_nothing_left(reaped=False)


@_check
async def cancelling_all_leaves_no_sandbox(lab: ExecutorLab) -> None:
    """Jobs that run and jobs that wait for their turn end; no reaper is needed."""
    async with lab.pool(workers=2) as pool:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                for _ in range(6):
                    tasks.start_soon(pool.run, lab.holding(_LONG_S))
                await lab.until_held(2)
                scope.cancel()
        (after,) = await lab.all_of(pool, [Job(id="after", work=ECHO)])
        require(after.state == "done", f"the pool is of no use afterwards: {after}")
    await lab.require_nothing_left(reaped=False)


@_check
async def closing_the_pool_leaves_no_sandbox(lab: ExecutorLab) -> None:
    """Cancelled as a whole, as by Ctrl-C, an executor drains before it stops."""
    with anyio.CancelScope() as scope:
        async with lab.pool(workers=2) as pool, anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(pool.run, lab.holding(_LONG_S))
            await lab.until_held(2)
            scope.cancel()
    await lab.require_nothing_left(reaped=False)


@_check
async def equal_jobs_run_once(lab: ExecutorLab) -> None:
    """Of jobs with one key at the same time one runs, and each gets its result under its own id."""
    given = {"file": str(lab.scratch / "count"), "seconds": 1.5}
    equal = [Job(id=f"equal {n}", work=COUNT, input=given, key="the same") for n in range(5)]
    other = Job(id="other", work=COUNT, input=given, key="another")
    async with lab.pool(workers=2) as pool:
        results = await lab.all_of(pool, [*equal, other])
    lines = (lab.scratch / "count").read_text().splitlines()
    require(len(lines) == 2, f"two jobs ran {len(lines)} times")
    require(len({result.output for result in results[:5]}) == 1, "equal jobs have different results")
    require([result.id for result in results[:5]] == [job.id for job in equal], "results bear the ids of other jobs")


@_check
async def equal_jobs_of_two_drivers_run_once(lab: ExecutorLab) -> None:
    """The same for two pools, as two programs that use one cluster have them."""
    if not lab.case.drivers_share:
        raise NotApplicable("pools of this executor know nothing of each other")
    job = Job(id="job", work=COUNT, input={"file": str(lab.scratch / "count"), "seconds": 4.0}, key=lab.scratch.name)
    results: list[JobResult] = []

    async def ask(pool: Pool) -> None:
        results.append(await pool.run(job))

    async with lab.pool() as one, lab.pool() as two, anyio.create_task_group() as tasks:
        tasks.start_soon(ask, one)
        await lab.until(lambda: (lab.scratch / "count").exists(), "the job did not begin")
        tasks.start_soon(ask, two)
    lines = (lab.scratch / "count").read_text().splitlines()
    require(len(lines) == 1, f"the job ran {len(lines)} times")
    require([result.output for result in results] == [f"{lines[0]}\n"] * 2, f"the results differ: {results}")


@_check
async def an_equal_job_outlives_the_cancel_of_another(lab: ExecutorLab) -> None:
    """Who asked first and gives up does not take the result from who asked later."""
    job = Job(id="job", work=COUNT, input={"file": str(lab.scratch / "count"), "seconds": 3.0}, key=lab.scratch.name)
    results: list[JobResult] = []
    async with lab.pool() as pool:

        async def ask() -> None:
            results.append(await pool.run(job))

        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as first:
                    first.start_soon(pool.run, job)
                    await lab.until(lambda: (lab.scratch / "count").exists(), "the job did not begin")
                    tasks.start_soon(ask)
                    await anyio.sleep(0.3)
                    scope.cancel()
    require([result.state for result in results] == ["done"], f"the second one is {results}")
    require(len((lab.scratch / "count").read_text().splitlines()) == 1, "the job ran twice")


@_check
async def what_is_for_everywhere_comes_first(lab: ExecutorLab) -> None:
    """A job of all nodes is carried out once on each, before the others there."""
    file = lab.scratch / "count"
    async with lab.pool(workers=2) as pool:
        await pool.everywhere(Job(id="ready", work=COUNT, input={"file": str(file), "seconds": 0.0}), later_too=True)
        jobs = [Job(id=f"job {n}", work=WAIT, input={"seconds": 0.2}) for n in range(6)]
        results = await lab.all_of(pool, jobs)
    ready = [line.split()[0] for line in file.read_text().splitlines()]
    require({result.node for result in results} <= set(ready), f"ready were {ready}, jobs ran on {results}")


@_check
async def a_job_runs_near_its_node_or_says_that_it_does_not(lab: ExecutorLab) -> None:
    """A job that is to run near a node runs there. Near one that there is not, it has not begun when that is said."""
    file = lab.scratch / "count"
    async with lab.pool(workers=2) as pool:
        for node in pool.nodes():
            (near,) = await lab.all_of(pool, [Job(id="near", work=ECHO, near=Near(node=node.id, wait_s=_LONG_S))])
            require(
                near.state == "done" and near.node == node.node, f"near {node.node} it was {near.state} {near.node}"
            )
        counted = {"file": str(file), "seconds": 0.0}
        nowhere = Near(node="no such node", wait_s=0.2)
        (away,) = await lab.all_of(pool, [Job(id="away", work=COUNT, input=counted, near=nowhere)])
    begun = "done" if file.exists() else "unplaced"
    require(away.state == begun, f"near a node that there is not, it was {away.state}, and in truth {begun}")


@_check
async def a_killed_worker_loses_its_jobs_alone(lab: ExecutorLab) -> None:
    """Its jobs are lost, all others done; asked for again, the lost ones are done too. Nothing is left once reaped."""
    await _survive(lab, lab.case.kill_worker)


@_check
async def a_killed_node_loses_its_jobs_alone(lab: ExecutorLab) -> None:
    """The same where all of a node dies at once."""
    await _survive(lab, lab.case.kill_node)


async def _survive(lab: ExecutorLab, kill: Callable[[NodeInfo], Awaitable[None]]) -> None:
    jobs = [lab.holding(5.0) for _ in range(4)]
    results: list[JobResult] = []
    try:
        async with lab.pool(workers=2) as pool:

            async def ask() -> None:
                results.extend(await lab.all_of(pool, jobs))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                await lab.until_held(2)
                victim = next(node for node in pool.nodes() if node.pid in lab.running())
                await kill(victim)
            states = [result.state for result in results]
            require("lost" in states and "done" in states, f"after the kill jobs are {states}")
            require(set(states) <= {"lost", "done"}, f"after the kill jobs are {states}")
            gone = [job for job, result in zip(jobs, results, strict=True) if result.state == "lost"]
            reasons = [result.error and result.error.kind for result in results if result.state == "lost"]
            require(set(reasons) == {"lost_worker"}, f"lost jobs say {reasons}")
            again = await lab.all_of(pool, gone)
            require({result.state for result in again} == {"done"}, f"asked for again they are {again}")
    finally:
        await lab.case.mend()
    await lab.require_nothing_left(reaped=True)


@_check
async def grades_are_those_of_one_process(lab: ExecutorLab) -> None:
    """Patches of known worth, graded through the executor, have the same verdicts, test by test."""
    if not lab.case.grades:
        raise NotApplicable("the case does not grade")
    from swe_sdk import measure

    task = tiny_task(lab.scratch / "repository")
    tasks = [task.model_copy(update={"instance_id": name}) for name in ("good", "bad", "none")]
    patches = {"good": GOLD, "bad": GOLD.replace("42", "43"), "none": ""}
    here = await measure.grade_many(tasks, patches, provider="local", progress=False, results=lab.scratch / "here")
    async with lab.pool() as pool:
        there = await measure.grade_many(
            tasks, patches, provider="local", progress=False, results=lab.scratch / "there", executor=pool
        )
    for one, other in zip(here, there, strict=True):
        require(one.status == other.status, f"{one.instance_id} is {other.status} there, and {one.status} here")
        require(one.tests == other.tests, f"the tests of {one.instance_id} differ")
    statuses = [outcome.status for outcome in there]
    require(statuses == ["resolved", "unresolved", "unresolved"], f"gold, wrong and no patch are {statuses}")
    kept = (lab.scratch / "there" / "outcomes.jsonl").read_text().splitlines()
    require(len(kept) == 3, f"{len(kept)} of 3 outcomes are kept")


EXECUTOR_CHECKS = tuple(_REGISTERED)
"""All of them."""
