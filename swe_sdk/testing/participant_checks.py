"""What must hold of the hooks of every agent and every resources server that takes part in checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import anyio

from swe_sdk.checkpoint.hooks import AgentHooks, check_agent_hooks, check_resources_hooks
from swe_sdk.checkpoint.messages import PrepareRequest, ResumeRequest
from swe_sdk.testing.expect import require, require_equal
from swe_sdk.testing.participant_lab import ParticipantLab, deadline

Run = Callable[[ParticipantLab], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class ParticipantCheck:
    """What must hold, and why."""

    name: str
    about: str
    run: Run


_CHECKS: list[ParticipantCheck] = []


def _check(run: Run) -> Run:
    _CHECKS.append(ParticipantCheck(run.__name__, run.__doc__ or "", run))
    return run


def _exported(run: Run) -> Run:
    async def only_where_saved(lab: ParticipantLab) -> None:
        lab.require_exported()
        await run(lab)

    _CHECKS.append(ParticipantCheck(run.__name__, run.__doc__ or "", only_where_saved))
    return run


@_check
async def the_hooks_are_accepted(lab: ParticipantLab) -> None:
    """Hooks with an old signature, or that declare what they do not implement, fail when a server starts, and not at
    the first checkpoint."""
    hooks = lab.case.make()
    if isinstance(hooks, AgentHooks):
        check_agent_hooks(hooks)
    else:
        check_resources_hooks(hooks)


@_check
async def the_mode_is_one_of_three(lab: ParticipantLab) -> None:
    """A mode that nobody knows would be taken for one that saves."""
    mode = lab.case.make().checkpoint_mode_in_effect()
    require(mode in ("stateless", "exported", "restart_only"), f"the mode is {mode!r}")


@_check
async def what_cannot_be_saved_is_a_restart(lab: ParticipantLab) -> None:
    """Else its episodes go on from a checkpoint that does not have their state."""
    if lab.case.make().checkpoint_mode_in_effect() != "restart_only":
        return
    async with lab.directory() as directory, lab.process(directory) as process:
        await process.start("a")
        request = PrepareRequest(checkpoint_id="c1", deadline_ts=deadline())
        report = (await process.control.prepare(request)).report
        await process.control.resume(ResumeRequest(checkpoint_id="c1", deadline_ts=deadline()))
    require(report.ready, "what cannot be saved holds a checkpoint up")
    require_equal([one.rollout_id for one in report.restarts], ["a"], "the restarts")


@_exported
async def a_restored_session_is_as_it_was_saved(lab: ParticipantLab) -> None:
    """In a new process, with nothing but what was written."""
    async with lab.directory() as directory:
        async with lab.process(directory) as process:
            await process.start("a")
            await process.change("a")
            before = await process.look("a")
            await process.save("c1", "a")
        async with lab.process(directory) as process:
            await process.restore("c1", "a")
            require_equal(await process.look("a"), before, "the restored state")


@_exported
async def saving_changes_nothing(lab: ParticipantLab) -> None:
    """A run with checkpoints must come to the same as one without."""
    async with lab.directory() as directory, lab.process(directory) as process:
        await process.start("a")
        before = await process.look("a")
        await process.save("c1", "a")
        require_equal(await process.look("a"), before, "the state after it was saved")
        await process.change("a")
        require(await process.look("a") != before, "the session cannot be changed after it was saved")


@_exported
async def what_comes_after_the_cut_is_not_in_it(lab: ParticipantLab) -> None:
    """Else steps are done twice: once before, and again after the restore."""
    async with lab.directory() as directory:
        async with lab.process(directory) as process:
            await process.start("a")
            before = await process.look("a")
            await process.save("c1", "a")
            await process.change("a")
        async with lab.process(directory) as process:
            await process.restore("c1", "a")
            require_equal(await process.look("a"), before, "the restored state")


@_exported
async def sessions_are_not_mixed_up(lab: ParticipantLab) -> None:
    """Each gets its own state back, and one that is out of scope is not restored."""
    async with lab.directory() as directory:
        async with lab.process(directory) as process:
            await process.start("a", "b", "c")
            await process.change("b")
            before = [await process.look(name) for name in ("a", "b")]
            await process.save("c1", "a", "b")
        async with lab.process(directory) as process:
            await process.restore("c1", "b", "a")
            require_equal([await process.look(name) for name in ("a", "b")], before, "the restored states")


@_exported
async def one_checkpoint_can_be_restored_again_and_again(lab: ParticipantLab) -> None:
    """A restored run may crash before its next checkpoint."""
    async with lab.directory() as directory:
        async with lab.process(directory) as process:
            await process.start("a")
            before = await process.look("a")
            await process.save("c1", "a")
        for _ in range(2):
            async with lab.process(directory) as process:
                await process.restore("c1", "a")
                require_equal(await process.look("a"), before, "the restored state")
                await process.change("a")


@_exported
async def a_restored_session_can_be_saved_before_it_is_used(lab: ParticipantLab) -> None:
    """Its episode may wait for its turn while the next checkpoint is made."""
    async with lab.directory() as directory:
        async with lab.process(directory) as process:
            await process.start("a")
            before = await process.look("a")
            await process.save("c1", "a")
        async with lab.process(directory) as process:
            await process.restore("c1", "a")
            await process.save("c2", "a")
        async with lab.process(directory) as process:
            await process.restore("c2", "a")
            require_equal(await process.look("a"), before, "the state after two restores")


@_exported
async def what_a_kept_checkpoint_needs_is_never_released(lab: ParticipantLab) -> None:
    """Also where nothing has changed between two checkpoints, so that both may stand on the same thing."""
    async with lab.directory() as directory:
        async with lab.process(directory) as process:
            await process.start("a", "b")
            before = await process.look("a")
            await process.save("c1", "a", "b")
            await process.change("b")
            changed = await process.look("b")
            await process.save("c2", "a", "b")
            await process.release("c2", "c2")
        async with lab.process(directory) as process:
            await process.restore("c2", "a", "b")
            require_equal(await process.look("a"), before, "what had not changed")
            require_equal(await process.look("b"), changed, "what had changed")


@_exported
async def a_release_may_be_cut_and_made_again(lab: ParticipantLab) -> None:
    """It is cancelled at its deadline; the next one goes on where it was, and what is kept stays."""
    async with lab.directory() as directory:
        async with lab.process(directory) as process:
            await process.start("a")
            await process.save("c1", "a")
            await process.change("a")
            before = await process.look("a")
            await process.save("c2", "a")
            with anyio.move_on_after(0):
                await process.hooks.release_external_state(frozenset({"c2"}))
            for _ in range(2):
                await process.hooks.release_external_state(frozenset({"c2"}))
        async with lab.process(directory) as process:
            await process.restore("c2", "a")
            require_equal(await process.look("a"), before, "the restored state")


@_exported
async def a_retired_session_leaves_its_checkpoints_alone(lab: ParticipantLab) -> None:
    """Its rollout goes on from an older one. And to retire it twice is to retire it once."""
    async with lab.directory() as directory:
        async with lab.process(directory) as process:
            await process.start("a")
            before = await process.look("a")
            await process.save("c1", "a")
            await process.retire("a")
            if isinstance(process.hooks, AgentHooks):
                await process.hooks.retire_agent_session("a")
            else:
                await process.hooks.retire_session_state("a")
        async with lab.process(directory) as process:
            await process.restore("c1", "a")
            require_equal(await process.look("a"), before, "the restored state")


PARTICIPANT_CHECKS: tuple[ParticipantCheck, ...] = tuple(_CHECKS)
"""All checks, in the order in which they are made."""
