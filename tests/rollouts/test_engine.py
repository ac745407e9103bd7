"""One rollout from seed to return: its stages, its ends, its budget, its attempts."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from swe_sdk.agents.contract import AgentEnd, AgentNeeds, Episode, Step
from swe_sdk.agents.gold import GoldAgent
from swe_sdk.agents.scripted import Fail, ScriptedAgent, Wait, Write
from swe_sdk.errors import CreateFailed, InputError, ModelUnreachable, SandboxLost, UnknownAgent, VerifierUnreachable
from swe_sdk.model.budget import Budget
from swe_sdk.model.outcome import Mask
from swe_sdk.model.patch import Patch
from swe_sdk.model.policy import DEFAULT_POLICY
from swe_sdk.rollouts.engine import run_rollout
from swe_sdk.rollouts.many import run_many
from swe_sdk.rollouts.settings import RunLimits
from swe_sdk.sandbox.contract import Mount
from swe_sdk.testing.faults import Fault
from tests.rollouts.world import (
    ANSWER,
    BASE,
    QUICK,
    Clock,
    FakeModel,
    FakeVerifier,
    FunctionAgent,
    MemoryJournal,
    answer,
    leaks,
    make_provider,
    make_task,
    verified,
)

pytestmark = pytest.mark.anyio
TASK = make_task()
AGAIN = QUICK.model_copy(update={"retries": 1})
STAGES = ["seed", "invoke_agent", "close_agent", "verify", "return"]


async def test_a_rollout_tells_its_whole_story() -> None:
    journal, provider, verifier = MemoryJournal(), make_provider(), FakeVerifier()
    result = await run_rollout(
        TASK, answer(), provider=provider, settings=QUICK, verifier=verifier, journal=journal, sample=3
    )
    assert (result.rollout_id, result.sample, result.attempt) == ("fake__task-1.3", 3, 1)
    assert (result.outcome.status, result.reward, result.outcome.mask) == ("resolved", 1.0, None)
    assert result.patch.data == b"42"
    assert result.last.end == AgentEnd(message="followed 3 actions")
    assert list(result.last.stages_s) == STAGES
    assert (result.last.commands, result.last.flags) == (2, ())
    assert result.budget.spent_s == pytest.approx(sum(result.last.stages_s.values()), abs=0.01)
    assert [event.kind for event in journal.events] == [
        "rollout_queued",
        "attempt_started",
        *("stage_started", "stage_ended", "budget"),
        "stage_started",
        *("step",) * 3,
        *("stage_ended", "budget"),
        *("stage_started", "stage_ended", "budget") * 2,
        *("stage_started", "outcome", "stage_ended", "budget"),
        "attempt_ended",
        "rollout_ended",
    ]
    assert [event.stage for event in journal.of("stage_ended")] == STAGES
    assert all(event.ok for event in journal.of("stage_ended"))
    assert journal.of("outcome")[0].outcome == result.outcome
    ended = journal.of("rollout_ended")[0]
    assert (ended.status, ended.reward, ended.attempt) == ("resolved", 1.0, 1)
    assert journal.artifacts["fake__task-1.3", 1, "patch.diff"].data == b"42"
    journal.check()
    assert leaks(provider) == []


async def test_the_agents_box_is_gone_before_the_patch_is_graded() -> None:
    provider = make_provider()
    alive: list[int] = []

    async def look() -> None:
        alive.append(len(provider.live))

    await run_rollout(TASK, answer(), provider=provider, settings=QUICK, verifier=FakeVerifier(look))
    assert alive == [0]


async def test_the_agent_sees_the_public_half_alone() -> None:
    seen: list[Any] = []

    async def look(episode: Episode) -> AgentEnd:
        seen.append(episode)
        assert not hasattr(episode.box, "close")
        return AgentEnd()

    await run_rollout(TASK, FunctionAgent(look), provider=make_provider(), settings=QUICK, verifier=FakeVerifier())
    episode: Episode = seen[0]
    assert (episode.task.instance_id, episode.task.problem_statement) == ("fake__task-1", "Give the answer.")
    assert episode.task.base_commit == BASE
    assert "42" not in episode.task.model_dump_json()
    assert episode.model is None
    assert episode.saved is None


async def test_what_an_agent_needs_is_in_its_box() -> None:
    needs = AgentNeeds(mounts=(Mount(source="/usr/lib", target="/opt/harness"),), env={"HARNESS": "1"})
    specs: list[Any] = []

    async def look(episode: Episode) -> AgentEnd:
        specs.append(episode.box.spec)
        return AgentEnd()

    provider = make_provider()
    await run_rollout(TASK, FunctionAgent(look, needs), provider=provider, settings=QUICK, verifier=FakeVerifier())
    assert specs[0].mounts == needs.mounts
    assert specs[0].env["HARNESS"] == "1"
    assert specs[0].labels["rollout"] == "fake__task-1.0"
    assert specs[0].network == "none"


async def test_gold_is_handed_over_by_the_engine() -> None:
    provider, verifier = make_provider(), FakeVerifier()
    submit = GoldAgent(submit=True)
    result = await run_rollout(TASK, submit, provider=provider, settings=QUICK, verifier=verifier)
    assert (result.outcome.status, result.patch.data) == ("resolved", b"42\n")
    without = TASK.model_copy(update={"grading": TASK.grading.model_copy(update={"gold_patch": None})})
    result = await run_rollout(without, submit, provider=provider, settings=QUICK, verifier=verifier)
    assert result.outcome.mask is not None
    assert result.outcome.mask.kind == "invalid_task"


async def test_an_agents_own_patch_counts_unless_the_tree_is_asked_for() -> None:
    async def submit(episode: Episode) -> AgentEnd:
        await episode.box.write(ANSWER, b"41")
        return AgentEnd(patch=Patch.of("42\n"))

    for source, wanted in (("agent_or_tree", b"42\n"), ("tree", b"41")):
        settings = QUICK.model_copy(update={"patch_source": source})
        result = await run_rollout(
            TASK, FunctionAgent(submit), provider=make_provider(), settings=settings, verifier=FakeVerifier()
        )
        assert result.patch.data == wanted


# -- ends --------------------------------------------------------------------------------------------------------------

ENDS = {
    "done": ("default", "resolved", "unresolved", ()),
    "step_limit": ("default", "resolved", "unresolved", ("agent_step_limit",)),
    "context_window": ("default", "resolved", "unresolved", ("agent_context_window",)),
    "budget": ("default", "resolved", "unresolved", ("agent_budget_spent",)),
    "error": ("default", "resolved", "unresolved", ("agent_failed",)),
    "stopped": ("default", "masked", "masked", ()),
    "nemo done": ("nemo_gym", "resolved", "unresolved", ()),
    "nemo step_limit": ("nemo_gym", "masked", "unresolved", ("agent_step_limit",)),
    "nemo context_window": ("nemo_gym", "masked", "unresolved", ("agent_context_window",)),
    "nemo budget": ("nemo_gym", "masked", "masked", ("agent_budget_spent",)),
    "nemo error": ("nemo_gym", "resolved", "unresolved", ("agent_failed",)),
    "0.7 step_limit": ("nemo_gym_0_7", "masked", "masked", ("agent_step_limit",)),
    "0.7 context_window": ("nemo_gym_0_7", "masked", "masked", ("agent_context_window",)),
}


@pytest.mark.parametrize("name", ENDS)
async def test_what_an_end_means_the_policy_says(name: str) -> None:
    policy, right, wrong, flags = ENDS[name]
    for text, wanted in (("42", right), ("41", wrong)):
        agent = ScriptedAgent(actions=(Write(path=ANSWER, content=text), Fail(reason=name.split()[-1], message="so")))
        result = await run_rollout(
            TASK, agent, provider=make_provider(), settings=QUICK, policy=policy, verifier=FakeVerifier()
        )
        assert (result.outcome.status, result.outcome.flags) == (wanted, flags)
        assert result.reward == (1.0 if wanted == "resolved" else 0.0)
        assert result.outcome.evidence["agent"]["reason"] == name.split()[-1]
        assert result.patch.data == text.encode(), "the work is kept, whatever it is worth"


@pytest.mark.parametrize(
    ("policy", "cap_s", "budget_s", "status", "kind"),
    [
        ("default", 0.1, None, "resolved", "agent_timed_out"),
        ("default", 5.0, 0.2, "resolved", "agent_budget_spent"),
        ("nemo_gym", 0.1, None, "masked", "agent_timed_out"),
        ("nemo_gym", 5.0, 0.2, "masked", "agent_budget_spent"),
    ],
)
async def test_an_agent_whose_time_is_up_is_graded_by_what_is_there(
    policy: str, cap_s: float, budget_s: float | None, status: str, kind: str
) -> None:
    agent = ScriptedAgent(actions=(Write(path=ANSWER, content="42"), Wait(seconds=60), Write(path=ANSWER, content="x")))
    settings = QUICK.model_copy(update={"agent_timeout_s": cap_s})
    with anyio.fail_after(5):
        result = await run_rollout(
            TASK,
            agent,
            provider=make_provider(),
            settings=settings,
            policy=policy,
            verifier=FakeVerifier(),
            budget=Budget(total_s=budget_s),
        )
    assert (result.outcome.status, result.outcome.flags, result.patch.data) == (status, (kind,), b"42")
    if budget_s is not None:
        assert result.last.stages_s["seed"] + result.last.stages_s["invoke_agent"] == pytest.approx(budget_s, abs=0.1)


async def test_an_agent_that_answers_its_cancellation_is_still_out_of_time() -> None:
    async def stubborn(episode: Episode) -> AgentEnd:
        try:
            await anyio.sleep(60)
        except anyio.get_cancelled_exc_class():
            raise ValueError("cleaning up went wrong") from None
        return AgentEnd()

    result = await run_rollout(
        TASK, FunctionAgent(stubborn), provider=make_provider(), settings=QUICK, verifier=FakeVerifier()
    )
    assert result.outcome.status == "unresolved"
    assert "agent_timed_out" in result.outcome.flags
    assert "cleaning up went wrong" in result.outcome.evidence["agent"]["message"]


async def test_a_line_of_the_table_decides_for_a_broken_adapter_too() -> None:
    async def broken(episode: Episode) -> AgentEnd:
        await episode.box.write(ANSWER, b"42")
        raise ValueError("no such key")

    for policy, status in (
        (DEFAULT_POLICY, "masked"),
        (DEFAULT_POLICY.override({("agent", "agent_crashed"): "grade"}), "resolved"),
        (DEFAULT_POLICY.override({("agent", "agent_crashed"): "unresolved"}), "unresolved"),
    ):
        result = await run_rollout(
            TASK,
            FunctionAgent(broken),
            provider=make_provider(),
            settings=QUICK,
            policy=policy,
            verifier=FakeVerifier(),
        )
        assert result.outcome.status == status
        assert "no such key" in str(result.outcome.model_dump())


# -- the budget --------------------------------------------------------------------------------------------------------


async def test_all_stages_are_charged_to_one_budget_by_the_clock() -> None:
    clock = Clock()

    async def work(episode: Episode) -> AgentEnd:
        clock.now += 20
        return AgentEnd()

    async def verify() -> None:
        clock.now += 7

    result = await run_rollout(
        TASK,
        FunctionAgent(work),
        provider=make_provider(),
        settings=QUICK,
        verifier=FakeVerifier(verify),
        budget=Budget(total_s=100, spent_s=10),
        clock=clock,
    )
    assert result.budget == Budget(total_s=100, spent_s=37)
    assert result.last.stages_s == {"seed": 0, "invoke_agent": 20, "close_agent": 0, "verify": 7, "return": 0}


async def test_a_budget_that_is_spent_before_the_agent_begins_is_a_mask() -> None:
    provider = make_provider(Fault(op="create", nth=2, error="hang"))
    result = await run_rollout(
        TASK, answer(), provider=provider, settings=QUICK, verifier=FakeVerifier(), budget=Budget(total_s=0.1)
    )
    assert result.outcome.mask is not None
    assert (result.outcome.mask.kind, result.outcome.mask.stage) == ("budget_spent", "seed")
    assert leaks(provider) == []


async def test_making_the_shared_environment_is_nobodys_time() -> None:
    provider = make_provider(Fault(op="create", nth=1, delay_s=0.3))
    result = await run_rollout(
        TASK, answer(), provider=provider, settings=QUICK, verifier=FakeVerifier(), budget=Budget(total_s=0.2)
    )
    assert result.outcome.status == "resolved"
    assert result.last.queued_s >= 0.3
    assert result.budget.spent_s < 0.2


# -- attempts ----------------------------------------------------------------------------------------------------------


async def test_a_new_attempt_starts_over_and_keeps_what_was_lost() -> None:
    journal, provider = MemoryJournal(), make_provider(Fault(op="exec", match="^work", error="lost", delay_s=0.05))
    result = await run_rollout(
        TASK,
        answer(),
        provider=provider,
        settings=AGAIN,
        verifier=FakeVerifier(),
        journal=journal,
        attempt=4,
        budget=Budget(total_s=100),
    )
    assert (result.outcome.status, result.attempt) == ("resolved", 5)
    assert [report.attempt for report in result.attempts] == [4, 5]
    assert result.attempts[0].mask is not None
    assert result.attempts[0].mask.kind == "sandbox_lost"
    (earlier,) = result.outcome.evidence["earlier_rollout_attempts"]
    assert (earlier["attempt"], earlier["kind"], earlier["stage"]) == (4, "sandbox_lost", "agent")
    assert result.budget.spent_s < result.attempts[0].budget.spent_s + 0.05, "what was lost is not the agent's"
    assert [event.will_retry for event in journal.of("attempt_ended")] == [True, False]
    assert journal.kinds["rollout_ended"] == 1
    journal.check()
    assert leaks(provider) == []


async def test_attempts_end_with_the_last_that_is_allowed() -> None:
    provider = make_provider(Fault(op="exec", match="^work", nth=None, error="lost"))
    result = await run_rollout(TASK, answer(), provider=provider, settings=AGAIN, verifier=FakeVerifier())
    assert (result.outcome.status, result.attempt, len(result.attempts)) == ("masked", 2, 2)


async def test_what_is_no_use_repeating_is_not_repeated() -> None:
    async def broken(episode: Episode) -> AgentEnd:
        raise ValueError("no")

    result = await run_rollout(
        TASK, FunctionAgent(broken), provider=make_provider(), settings=AGAIN, verifier=FakeVerifier()
    )
    assert (result.outcome.status, len(result.attempts)) == ("masked", 1)


async def test_where_only_verifying_failed_the_agent_does_not_start_over() -> None:
    journal = MemoryJournal()
    for verifier in (
        FakeVerifier(VerifierUnreachable("nobody is there"), times=1),
        FakeVerifier(lambda: anyio.sleep(60), times=1),
    ):
        provider = make_provider()
        result = await run_rollout(
            TASK,
            answer(),
            provider=provider,
            settings=AGAIN,
            verifier=verifier,
            journal=journal,
            budget=Budget(total_s=9),
        )
        assert (result.outcome.status, len(result.attempts)) == ("resolved", 2)
        assert list(result.attempts[1].stages_s) == ["verify", "return"]
        assert result.last.end == AgentEnd(message="followed 3 actions")
        assert [patch.data for patch in verifier.patches] == [b"42", b"42"]
        assert provider.calls["create"] == 2, "one for the environment, one for the agent"
        assert result.budget.spent_s > result.attempts[0].budget.spent_s, (
            "its work is not done again, and stays charged"
        )
        journal = MemoryJournal()


async def test_a_masked_grade_is_verified_again() -> None:
    class Masking(FakeVerifier):
        async def verify(self, task: Any, patch: Any, *, deadline_s: float) -> Any:
            outcome = await super().verify(task, patch, deadline_s=deadline_s)
            mask = Mask(kind="sandbox_lost", stage="tests", reason="it died", retryable=True)
            return outcome if len(self.patches) > 1 else verified(task, patch, status="masked", reward=0.0, mask=mask)

    result = await run_rollout(TASK, answer(), provider=make_provider(), settings=AGAIN, verifier=Masking())
    assert (result.outcome.status, len(result.attempts)) == ("resolved", 2)
    assert result.attempts[0].mask is not None
    assert result.attempts[0].mask.stage == "tests"


async def test_an_answer_about_something_else_is_none() -> None:
    class Confused(FakeVerifier):
        async def verify(self, task: Any, patch: Any, *, deadline_s: float) -> Any:
            return verified(make_task("other__task-1"), patch)

    result = await run_rollout(TASK, answer(), provider=make_provider(), settings=QUICK, verifier=Confused())
    assert result.outcome.mask is not None
    assert (result.outcome.mask.kind, result.outcome.mask.stage) == ("verifier_failed", "verify")
    assert result.outcome.instance_id == TASK.instance_id


# -- the model ---------------------------------------------------------------------------------------------------------

NEEDS_MODEL = ScriptedAgent(actions=answer().actions, egress="model")


async def test_the_model_is_there_before_the_agent_and_gone_after_it() -> None:
    model = FakeModel()

    async def look(episode: Episode) -> AgentEnd:
        assert episode.model == model.access
        assert model.open == 1
        return AgentEnd()

    agent = FunctionAgent(look, AgentNeeds(egress="model"))
    result = await run_rollout(
        TASK, agent, provider=make_provider(), settings=QUICK, verifier=FakeVerifier(), model=model
    )
    assert (result.outcome.status, model.open, model.opened) == ("unresolved", 0, 1)


@pytest.mark.parametrize("reason", ["error", "done"])
async def test_a_dead_model_explains_a_failure_and_no_success(reason: Any) -> None:
    """An agent that ended well is graded: else one that sees no way out could break its last call."""
    model = FakeModel(trouble=ModelUnreachable("connection refused"))
    actions = (*answer().actions, Fail(reason=reason))
    agent = ScriptedAgent(actions=actions, egress="model")
    result = await run_rollout(
        TASK, agent, provider=make_provider(), settings=QUICK, verifier=FakeVerifier(), model=model
    )
    kind = result.outcome.mask.kind if result.outcome.mask else None
    assert (result.outcome.status, kind) == (
        ("masked", "model_unreachable") if reason == "error" else ("resolved", None)
    )


async def test_without_a_model_an_agent_that_needs_one_is_not_started() -> None:
    result = await run_rollout(TASK, NEEDS_MODEL, provider=make_provider(), settings=QUICK, verifier=FakeVerifier())
    assert result.outcome.mask is not None
    assert (result.outcome.mask.kind, result.outcome.mask.stage) == ("capability_missing", "seed")


# -- what the agent leaves ---------------------------------------------------------------------------------------------


async def test_steps_and_transcripts_are_kept() -> None:
    async def talk(episode: Episode) -> AgentEnd:
        episode.record(Step(n=1, kind="model", summary="thought", seconds=0.5, tokens_in=3, tokens_out=2))
        transcript = episode.transcript("stdout.log")
        assert transcript is episode.transcript("stdout.log")
        await anyio.to_thread.run_sync(transcript.write, b"x" * 60)
        transcript.write(b"y" * 60)
        return AgentEnd()

    journal = MemoryJournal()
    settings = QUICK.model_copy(update={"max_transcript_bytes": 100})
    result = await run_rollout(
        TASK,
        FunctionAgent(talk),
        provider=make_provider(),
        settings=settings,
        verifier=FakeVerifier(),
        journal=journal,
    )
    (step,) = journal.of("step")
    assert (step.n, step.step_kind, step.tokens_in, step.tokens_out, step.seconds) == (1, "model", 3, 2, 0.5)
    assert journal.artifacts["fake__task-1.0", 1, "stdout.log"].data == b"x" * 60 + b"y" * 40
    assert result.outcome.flags == ("transcript_truncated",)
    journal.check()


async def test_a_lost_box_is_lost_even_if_the_agent_takes_it_lightly() -> None:
    async def shrug(episode: Episode) -> AgentEnd:
        try:
            await episode.box.exec("work on it")
        except SandboxLost:
            pass
        return AgentEnd(message="all went well")

    for error in ("lost", SandboxLost("gone")):
        provider = make_provider(Fault(op="exec", match="^work", error=error))
        result = await run_rollout(
            TASK, FunctionAgent(shrug), provider=provider, settings=QUICK, verifier=FakeVerifier()
        )
        assert result.outcome.mask is not None
        assert (result.outcome.mask.kind, result.outcome.mask.stage) == ("sandbox_lost", "agent")


async def test_a_patch_that_no_box_gives_is_a_mask_and_one_that_only_this_box_refuses_is_not() -> None:
    broken = Fault(op="read", match="/result$", nth=None, error="reply_lost")
    result = await run_rollout(TASK, answer(), provider=make_provider(broken), settings=QUICK, verifier=FakeVerifier())
    assert result.outcome.mask is not None
    assert result.outcome.mask.kind == "transfer_failed"


async def test_one_hiccup_while_the_patch_is_taken_costs_nothing() -> None:
    provider = make_provider(Fault(op="read", match="/result$", nth=2, error="reply_lost"))
    result = await run_rollout(TASK, answer(), provider=provider, settings=QUICK, verifier=FakeVerifier())
    assert (result.outcome.status, len(result.attempts)) == ("resolved", 1)
    assert leaks(provider) == []


async def test_a_snapshot_that_somebody_deleted_is_made_anew() -> None:
    provider = make_provider()

    class Deleting(FakeVerifier):
        async def verify(self, task: Any, patch: Any, *, deadline_s: float) -> Any:
            for snapshot in await provider.snapshots():
                await provider.delete_snapshot(snapshot.id)
            return await super().verify(task, patch, deadline_s=deadline_s)

    results = await run_many(
        [TASK],
        answer(),
        samples=2,
        provider=provider,
        settings=AGAIN,
        verifier=Deleting(),
        limits=RunLimits(episodes=1),
    )
    assert [result.outcome.status for result in results] == ["resolved", "resolved"]
    assert len(results[1].attempts) == 2


async def test_nonsense_is_refused_before_anything_starts() -> None:
    provider = make_provider()
    for changes, error in (
        ({"agent": "gould"}, UnknownAgent),
        ({"policy": "strict"}, InputError),
        ({"provider": "nowhere"}, InputError),
    ):
        arguments: dict[str, Any] = {"agent": answer(), "provider": provider, **changes}
        with pytest.raises(error):
            await run_rollout(TASK, arguments.pop("agent"), **arguments)
    assert provider.calls["create"] == 0


async def test_it_is_an_environment_that_fails_not_a_seed() -> None:
    provider = make_provider(Fault(op="create", nth=1, error=CreateFailed("no")))
    result = await run_rollout(TASK, answer(), provider=provider, settings=QUICK, verifier=FakeVerifier())
    assert result.outcome.mask is not None
    assert (result.outcome.mask.kind, result.outcome.mask.stage) == ("create_failed", "environment")
