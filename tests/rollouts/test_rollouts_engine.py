"""One rollout from seed to return: its stages, its ends, its budget, its attempts."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import anyio
import pytest

from swe_sdk.agents.contract import AgentEnd, AgentNeeds, Episode, Step
from swe_sdk.agents.gold import GoldAgent
from swe_sdk.agents.scripted import Fail, ScriptedAgent
from swe_sdk.errors import CreateFailed, InputError, ModelUnreachable, SandboxLost, UnknownAgent
from swe_sdk.model.budget import Budget
from swe_sdk.model.patch import Patch
from swe_sdk.rollouts.bookmark import Bookmark
from swe_sdk.rollouts.engine import run_rollout
from swe_sdk.rollouts.many import run_many
from swe_sdk.rollouts.settings import RunLimits
from swe_sdk.sandbox.contract import Mount
from swe_sdk.testing.faults import Fault
from tests.rollouts.world import (
    ANSWER,
    BASE,
    QUICK,
    FakeModel,
    FakeVerifier,
    FunctionAgent,
    MemoryJournal,
    answer,
    leaks,
    make_provider,
    make_task,
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


async def test_what_is_said_of_an_attempt_goes_on_with_it() -> None:
    mark = Bookmark(
        rollout_id="fake__task-1.0", attempt=1, next="verify", budget=Budget(), patch=Patch(data=b"42"),
        flags=("transcript_truncated",),
    )  # fmt: skip
    result = await run_rollout(
        TASK, answer(), provider=make_provider(), settings=QUICK, verifier=FakeVerifier(), start=mark, attempt=2
    )
    assert (result.outcome.status, result.outcome.flags) == ("resolved", ("transcript_truncated",))


async def test_steps_without_end_fill_no_disk() -> None:
    async def chatter(episode: Episode) -> AgentEnd:
        for number in range(50):
            episode.record(Step(n=number, kind="note", summary="so"))
        return AgentEnd()

    journal = MemoryJournal()
    result = await run_rollout(
        TASK,
        FunctionAgent(chatter),
        provider=make_provider(),
        settings=QUICK.model_copy(update={"max_steps": 10}),
        verifier=FakeVerifier(),
        journal=journal,
    )
    assert len(journal.of("step")) == 10
    assert result.outcome.flags == ("steps_truncated",)


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


async def test_without_a_journal_nothing_stays_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen: list[bytes] = []

    async def talk(episode: Episode) -> AgentEnd:
        transcript = episode.transcript("stdout.log")
        transcript.write(b"hello")
        seen.append(transcript.path.read_bytes())
        return AgentEnd()

    result = await run_rollout(
        TASK, FunctionAgent(talk), provider=make_provider(), settings=QUICK, verifier=FakeVerifier()
    )
    assert (result.outcome.status, seen) == ("unresolved", [b"hello"])
    assert list(tmp_path.iterdir()) == []


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
