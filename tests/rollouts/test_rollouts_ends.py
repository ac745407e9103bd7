"""How a rollout ends: what an agent's end means, what its budget buys, and which attempts follow."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from swe_sdk.agents.contract import AgentEnd, Episode
from swe_sdk.agents.scripted import Fail, ScriptedAgent, Wait, Write
from swe_sdk.errors import VerifierUnreachable
from swe_sdk.model.budget import Budget
from swe_sdk.model.outcome import Mask
from swe_sdk.model.policy import DEFAULT_POLICY
from swe_sdk.rollouts.engine import run_rollout
from swe_sdk.testing.faults import Fault
from tests.rollouts.world import (
    ANSWER,
    QUICK,
    Clock,
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
    journal, provider = MemoryJournal(), make_provider(Fault(op="exec", match="^work", error="lost", delay_s=0.5))
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
    assert result.budget.spent_s < result.attempts[0].budget.spent_s + 0.5, "what was lost is not the agent's"
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
