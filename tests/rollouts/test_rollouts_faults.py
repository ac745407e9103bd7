"""Whatever fails, wherever: the right mask or a graded result, by the deadline, and nothing left behind."""

from __future__ import annotations

import errno
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swe_sdk.agents.contract import AgentEnd, AgentNeeds, Episode, Step
from swe_sdk.agents.scripted import Exec, Fail, ScriptedAgent, Wait, Write
from swe_sdk.errors import (
    CreateFailed,
    ModelEgressUnavailable,
    ModelFailed,
    ModelUnreachable,
    NoSpace,
    SandboxLost,
    SandboxOutOfMemory,
    TransferFailed,
    VerifierError,
    VerifierUnreachable,
)
from swe_sdk.rollouts.engine import run_rollout
from swe_sdk.rollouts.many import RolloutResults, run_many
from swe_sdk.rollouts.settings import RunLimits
from swe_sdk.testing.faults import Fault
from tests.rollouts.world import (
    ANSWER,
    FULL,
    LONGEST_S,
    QUICK,
    TAKES_PATCH,
    WORKS,
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
BUG = RuntimeError("a defect")
EIO = OSError(errno.EIO, "the disk fails")


def forever() -> Any:
    return anyio.sleep_forever()


def fault(op: Any, error: Any, match: str = "", nth: int | None = None) -> Fault:
    return Fault(op=op, error=error, match=match, nth=nth)


def raising(error: Exception) -> FunctionAgent:
    async def run(episode: Episode) -> AgentEnd:
        await episode.box.write(ANSWER, b"42")
        raise error

    return FunctionAgent(run)


@dataclass
class Case:
    """What goes wrong, and what must come of it: "kind@stage" of the mask, or the status of a graded result."""

    comes_to: str
    faults: list[Fault] = field(default_factory=list)
    agent: Any = None
    verifier: FakeVerifier | None = None
    model: FakeModel | None = None
    room: int | None = None
    trouble: Exception = FULL
    """Of the journal, once it has no room."""
    flags: tuple[str, ...] = ()


TAKING = f"(?s){TAKES_PATCH}.*cached --binary"
"""The command that takes a patch, and not the one that looks at what was there before."""
NEEDS_MODEL = ScriptedAgent(actions=answer().actions, egress="model")
FAILS = ScriptedAgent(actions=(*answer().actions, Fail(reason="error")), egress="model")
WAITS = ScriptedAgent(actions=(*answer().actions, Wait(seconds=60)), egress="model")

CASES = {
    # the environment that all share
    "environment raise": Case("create_failed@environment", [fault("create", CreateFailed("no"), nth=1)]),
    "environment hang": Case("timeout@environment", [fault("create", "hang", nth=1)]),
    "environment lost": Case("sandbox_lost@environment", [fault("exec", SandboxLost("gone"), "rev-parse")]),
    "environment full": Case("no_space@environment", [fault("snapshot", FULL)]),
    "environment bug": Case("internal_error@environment", [fault("snapshot", BUG)]),
    # seed
    "seed raise": Case("create_failed@seed", [fault("create", CreateFailed("no"), '"rollout"')]),
    "seed hang": Case("timeout@seed", [fault("create", "hang", '"rollout"')]),
    "seed hang later": Case("timeout@seed", [fault("exec", "hang", "update-index -q --refresh")]),
    "seed lost": Case("sandbox_lost@seed", [fault("exec", SandboxLost("gone"), "update-index -q --refresh")]),
    "seed full": Case("no_space@seed", [fault("create", FULL, '"rollout"')]),
    "seed bug": Case("internal_error@seed", [fault("create", BUG, '"rollout"')]),
    "seed model refused": Case(
        "model_unreachable@seed", agent=NEEDS_MODEL, model=FakeModel(refuses=ModelEgressUnavailable("refused"))
    ),
    "seed model 500": Case("model_failed@seed", agent=NEEDS_MODEL, model=FakeModel(refuses=ModelFailed("HTTP 500"))),
    "seed model timeout": Case(
        "model_unreachable@seed", agent=NEEDS_MODEL, model=FakeModel(refuses=ModelUnreachable("no answer in time"))
    ),
    "seed model hang": Case("timeout@seed", agent=NEEDS_MODEL, model=FakeModel(opening=forever)),
    # invoke_agent
    "agent raise": Case("agent_crashed@agent", agent=raising(ValueError("no such key"))),
    "agent box raise": Case("transfer_failed@agent", [fault("write", TransferFailed("no"), "answer")]),
    "agent box bug": Case("agent_crashed@agent", [fault("exec", BUG, WORKS)]),
    "agent hang": Case("resolved", [fault("exec", "hang", WORKS, nth=2)], flags=("agent_timed_out",)),
    "agent hang at once": Case("unresolved", [fault("exec", "hang", WORKS)], flags=("agent_timed_out",)),
    "agent lost": Case("sandbox_lost@agent", [fault("exec", "lost", WORKS)]),
    "agent lost writing": Case("sandbox_lost@agent", [fault("write", "lost", "answer")]),
    "agent out of memory": Case("unresolved", [fault("exec", SandboxOutOfMemory("full"), WORKS)]),
    "agent full": Case("no_space@agent", [fault("write", FULL, "answer")]),
    "agent journal full": Case("no_space@return", room=9),
    "agent model 500": Case(
        "model_unreachable@agent",
        agent=FAILS,
        model=FakeModel(trouble=ModelUnreachable("HTTP 500, five times")),
        flags=("agent_failed",),
    ),
    "agent model timeout": Case(
        "model_unreachable@agent",
        agent=WAITS,
        model=FakeModel(trouble=ModelUnreachable("no answer in time")),
        flags=("agent_timed_out",),
    ),
    "agent model refused": Case("model_unreachable@agent", agent=raising(ModelUnreachable("connection refused"))),
    # close_agent
    "close raise": Case("transfer_failed@close_agent", [fault("exec", TransferFailed("no"), TAKING)]),
    "close raise once": Case("resolved", [fault("exec", TransferFailed("no"), TAKING, nth=1)]),
    "close hang": Case("timeout@close_agent", [fault("exec", "hang", TAKING)]),
    "close lost": Case("sandbox_lost@close_agent", [fault("exec", "lost", TAKING)]),
    "close full": Case("no_space@close_agent", [fault("read", FULL, "/result", nth=2)]),
    "close bug": Case("internal_error@close_agent", [fault("read", BUG, "/result", nth=2)]),
    # verify
    "verify raise": Case("verifier_failed@verify", verifier=FakeVerifier(VerifierError("HTTP 422"))),
    "verify unreachable": Case("verifier_unreachable@verify", verifier=FakeVerifier(VerifierUnreachable("refused"))),
    "verify hang": Case("timeout@verify", verifier=FakeVerifier(forever)),
    "verify lost": Case("sandbox_lost@verify", verifier=FakeVerifier(SandboxLost("gone"))),
    "verify full": Case("no_space@verify", verifier=FakeVerifier(FULL)),
    "verify bug": Case("internal_error@verify", verifier=FakeVerifier(BUG)),
    # return
    "return full": Case("no_space@return", room=18),
    "return raise": Case("internal_error@return", room=18, trouble=EIO),
    # teardown
    "teardown raise": Case("resolved", [fault("close", SandboxLost("no"), nth=2)], flags=("teardown_failed",)),
    "teardown hang": Case("resolved", [fault("close", "hang", nth=2)], flags=("teardown_failed",)),
    "teardown bug": Case("resolved", [fault("close", BUG, nth=2)], flags=("teardown_failed",)),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_fault_comes_to_what_the_table_says(name: str) -> None:
    case = CASES[name]
    provider, journal = make_provider(*case.faults), MemoryJournal(case.room, case.trouble)
    begin = time.monotonic()
    result = await run_rollout(
        TASK,
        case.agent or answer(),
        provider=provider,
        settings=QUICK,
        verifier=case.verifier or FakeVerifier(),
        model=case.model,
        journal=journal,
    )
    assert time.monotonic() - begin < LONGEST_S
    mask = result.outcome.mask
    assert (f"{mask.kind}@{mask.stage}" if mask else result.outcome.status) == case.comes_to, result.outcome
    assert result.outcome.flags == case.flags
    assert result.reward == (1.0 if result.outcome.status == "resolved" else 0.0)
    if case.room is None:
        journal.check()
        assert journal.of("outcome")[0].outcome == result.outcome
    stuck = 1 if name.startswith("teardown") else 0
    assert len(leaks(provider)) == stuck, "the provider itself keeps a record of what it could not close"
    assert case.model is None or case.model.open == 0


def test_every_stage_meets_every_fault() -> None:
    for stage in ("environment", "seed", "agent", "close", "verify"):
        assert {"raise", "hang", "lost", "full"} <= {name.split()[1] for name in CASES if name.startswith(stage)}
    assert {"return raise", "return full"} <= set(CASES), "it has no box; a journal that hangs is met by the deadline"
    for stage in ("seed", "agent"):
        assert {f"{stage} model {fault}" for fault in ("500", "timeout", "refused")} <= set(CASES)


@pytest.mark.parametrize("room", range(2, 20))
async def test_a_journal_that_hangs_ends_with_the_deadline_of_the_run(room: int) -> None:
    provider, journal = make_provider(), MemoryJournal(room, "hang")
    begin = time.monotonic()
    results = await run_many(
        [TASK], answer(), provider=provider, settings=QUICK, verifier=FakeVerifier(), journal=journal, deadline_s=0.2
    )
    assert time.monotonic() - begin < LONGEST_S
    assert (list(results), results.unfinished) == ([], (f"{TASK.instance_id}.0",)) or results.stopped is None
    assert leaks(provider) == []


# -- anything at all ---------------------------------------------------------------------------------------------------

ERRORS: list[Any] = [
    "hang",
    "lost",
    CreateFailed("x"),
    SandboxLost("x"),
    TransferFailed("x"),
    FULL,
    BUG,
    TimeoutError(),
]
FAULTS = st.builds(
    Fault,
    op=st.sampled_from(["create", "exec", "read", "write", "status", "close", "snapshot"]),
    nth=st.sampled_from([1, 2, 3, 4, None]),
    error=st.sampled_from(ERRORS),
)
ACTIONS = st.lists(
    st.sampled_from(
        [
            Exec(command=WORKS),
            Exec(command=WORKS, check=True),
            Write(path=ANSWER, content="42"),
            Write(path=ANSWER, content="41"),
            Wait(seconds=0.01),
            Wait(seconds=60),
            Fail(reason="step_limit"),
            Fail(reason="error"),
        ]
    ),
    max_size=4,
)
VERIFIERS = st.sampled_from([None, VerifierUnreachable("x"), VerifierError("x"), FULL, BUG, forever])
MODELS = st.sampled_from(
    [
        None,
        {},
        {"trouble": ModelFailed("HTTP 500")},
        {"trouble": ModelUnreachable("no answer in time")},
        {"refuses": ModelUnreachable("refused")},
        {"opening": forever},
    ]
)
"""What the model meets; None = the agent needs none."""
_TROUBLES = [{"room": room, "trouble": trouble} for room in (4, 9, 14, 19, 30) for trouble in (FULL, EIO, "hang")]
JOURNALS = st.sampled_from([{}, {}, {}, *_TROUBLES])
"""Of the two events of the plan there is always room."""
ENDING_S = 0.04


@pytest.mark.timeout(180)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    faults=st.lists(FAULTS, max_size=3),
    actions=ACTIONS,
    trouble=VERIFIERS,
    model=MODELS,
    kept=JOURNALS,
    retries=st.integers(0, 2),
    ending=st.sampled_from(["finished", "cancelled", "deadline"]),
)
def test_nothing_leaks_and_everything_ends(
    faults: list[Fault], actions: list[Any], trouble: Any, model: Any, kept: Any, retries: int, ending: str
) -> None:
    if kept.get("trouble") == "hang" and ending == "finished":
        ending = "deadline"  # nothing else ends it
    provider, journal = make_provider(*faults), MemoryJournal(**kept)
    fake_model = None if model is None else FakeModel(**model)
    quick = QUICK.model_copy(
        update={
            "seed_timeout_s": 0.05,
            "build_timeout_s": 0.1,
            "agent_timeout_s": 0.05,
            "close_timeout_s": 0.1,
            "verify_timeout_s": 0.05,
            "teardown_timeout_s": 0.05,
            "retries": retries,
        }
    )
    longest_s = (retries + 1) * (0.1 + 0.05 + 0.05 + 0.1 + 0.05 + 4 * 0.05) + 1.5
    found: list[RolloutResults] = []

    async def go() -> None:
        results = await run_many(
            [TASK, make_task("fake__task-2")],
            ScriptedAgent(actions=tuple(actions), egress="none" if model is None else "model"),
            provider=provider,
            settings=quick,
            verifier=FakeVerifier(trouble, times=2),
            model=fake_model,
            journal=journal,
            limits=RunLimits(episodes=2),
            deadline_s=ENDING_S if ending == "deadline" else None,
        )
        found.append(results)

    async def go_or_be_stopped() -> None:
        with anyio.move_on_after(ENDING_S if ending == "cancelled" else longest_s):
            await go()

    with pytest.MonkeyPatch.context() as patch:  # what is bounded by constants is bounded by less
        patch.setattr("swe_sdk.sandbox.tree._CLEAN_UP_S", 0.05)
        patch.setattr("swe_sdk.sandbox.lent_environment._CLOSE_S", 0.05)
        patch.setattr("swe_sdk.rollouts.invoke._ASK_S", 0.05)
        begin = time.monotonic()
        anyio.run(go_or_be_stopped)
        assert time.monotonic() - begin < longest_s
    for results in found:
        assert len(results) + len(results.unfinished) == 2
        if ending == "finished" and not kept:
            assert results.stopped in (None, "no_space")
            journal.check(cancelled=bool(results.unfinished))
    assert found or ending == "cancelled"
    for result in [result for results in found for result in results]:
        assert result.reward == float(result.outcome.status == "resolved")
        assert (result.outcome.status == "masked") == (result.outcome.mask is not None)
        assert len(result.attempts) <= retries + 1
        assert all(report.mask is not None and report.mask.retryable for report in result.attempts[:-1])
    close_failed = any(each.op in ("close", "status") or each.nth is None for each in faults)
    assert leaks(provider) == [] or close_failed
    assert fake_model is None or fake_model.open == 0


async def test_an_agent_that_needs_a_model_has_one_to_itself() -> None:
    model = FakeModel()

    async def look(episode: Episode) -> AgentEnd:
        await anyio.sleep(0.01)
        return AgentEnd()

    agent = FunctionAgent(look, AgentNeeds(egress="model"))
    tasks = [make_task(f"fake__task-{n}") for n in range(5)]
    results = await run_many(
        tasks, agent, provider=make_provider(), settings=QUICK, verifier=FakeVerifier(), model=model
    )
    assert (len(results), model.opened, model.open) == (5, 5, 0)


@pytest.mark.parametrize("raises", [False, True])
async def test_a_way_to_the_model_that_does_not_end_changes_nothing(raises: bool) -> None:
    class Sticky(FakeModel):
        @asynccontextmanager
        async def connect(self, *where: Any, **who: Any) -> AsyncIterator[FakeModel]:
            yield self
            await anyio.sleep_forever()

    async def work(episode: Episode) -> AgentEnd:
        await episode.box.write(ANSWER, b"42")
        if raises:
            raise SandboxLost("gone")
        return AgentEnd()

    agent, provider = FunctionAgent(work, AgentNeeds(egress="model")), make_provider()
    with anyio.fail_after(LONGEST_S):
        result = await run_rollout(
            TASK, agent, provider=provider, settings=QUICK, verifier=FakeVerifier(), model=Sticky()
        )
    kind = result.outcome.mask.kind if result.outcome.mask else None
    assert (result.outcome.status, kind) == (("masked", "sandbox_lost") if raises else ("resolved", None))
    assert leaks(provider) == []


async def test_an_adapter_that_returns_nothing_is_broken() -> None:
    async def forget(episode: Episode) -> Any:
        return None

    result = await run_rollout(
        TASK, FunctionAgent(forget), provider=make_provider(), settings=QUICK, verifier=FakeVerifier()
    )
    assert result.outcome.mask is not None
    assert result.outcome.mask.kind == "agent_crashed"


async def test_a_step_that_could_not_be_kept_is_not_swallowed_by_the_agent() -> None:
    async def careless(episode: Episode) -> AgentEnd:
        journal.room = len(journal.events)
        try:
            episode.record(Step(n=1, kind="note"))
        except NoSpace:
            journal.room = None
        return AgentEnd()

    journal = MemoryJournal()
    result = await run_rollout(
        TASK,
        FunctionAgent(careless),
        provider=make_provider(),
        settings=QUICK,
        verifier=FakeVerifier(),
        journal=journal,
    )
    assert result.outcome.mask is not None
    assert result.outcome.mask.kind == "no_space"
