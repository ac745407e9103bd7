"""What the journal hears of one made-up rollout."""

from __future__ import annotations

import random
from collections.abc import Iterator

from benchmarks.made_up_lives import Life, Save, Try
from benchmarks.made_up_masks import mask_of
from benchmarks.made_up_runs import BUDGET_S, Timed
from swe_sdk.model.budget import Budget
from swe_sdk.model.outcome import Outcome, PatchReport, TestReport
from swe_sdk.store import events as ev

_SAYS = (
    "reads the issue and looks for the function that it names",
    "grep -rn 'def clean' src | head",
    "runs the failing test: it fails as described",
    "sed -n '120,180p' src/forms/models.py",
    "thinks that the default is taken before the check",
    "edits src/forms/models.py",
    "runs the tests of the module again",
    "git diff, and is done",
)


class Teller:
    """Events of the rollouts of one run, all at times after ``began`` (Unix seconds)."""

    def __init__(
        self, chance: random.Random, began: float, agent: str, model: str, provider: str, saves: list[Save], steps: int
    ) -> None:
        self._chance, self._began, self._saves, self._steps = chance, began, saves, steps
        self._agent, self._model, self._provider = agent, model, provider

    def queued(self, life: Life) -> ev.Event:
        """There is to be such a rollout."""
        return ev.RolloutQueued(
            rollout_id=life.rollout_id,
            instance_id=life.instance_id,
            sample=life.sample,
            family=life.family,
            repo=life.repo,
            agent=self._agent,
            agent_version="1.4.2",
            model=self._model,
            provider=self._provider,
            tags={"shard": str(life.sample)},
        )

    def told(self, life: Life, *, is_whole: bool) -> Iterator[Timed]:
        """From its first attempt to its end; one that is shown whole has all of its steps and model calls."""
        for tried in life.tries:
            is_last = tried is life.tries[-1]
            told = self._attempt(life, tried, is_whole=is_whole)
            if tried.is_cut:
                end = self._began + tried.end
                yield from ((at, event) for at, event in told if at < end)
            else:
                yield from told
                yield from self._ended(life, tried, is_last=is_last)
        last = life.tries[-1]
        reward = 1.0 if life.status == "resolved" else 0.0
        ended = {"rollout_id": life.rollout_id, "attempt": last.attempt, "status": life.status, "reward": reward}
        yield self._began + last.end, ev.RolloutEnded.model_validate(ended)

    # -- an attempt --------------------------------------------------------------------------------------------------

    def _attempt(self, life: Life, tried: Try, *, is_whole: bool) -> Iterator[Timed]:
        names = {"rollout_id": life.rollout_id, "attempt": tried.attempt}
        t, spent, parked = self._began + tried.start, tried.spent_s, 0.0
        boundary = tried.stages[0][0] if tried.restored_from else None
        yield (
            t,
            ev.AttemptStarted(**names, provider=self._provider, restored_from=tried.restored_from, boundary=boundary),
        )
        held = [(self._began + save.at, save) for save in self._saves if tried.start < save.at < tried.end]
        for at, save in held:
            yield at, ev.RolloutParked(**names, checkpoint_id=save.checkpoint_id)
            yield at + save.held_s, ev.RolloutUnparked(**names, checkpoint_id=save.checkpoint_id)
        for stage, seconds in tried.stages:
            yield t, ev.StageStarted(**names, stage=stage)
            if stage == "invoke_agent":
                yield from self._work(names, t, seconds, is_whole=is_whole)
            end = t + seconds
            for at, save in held:
                if t <= at < end:
                    end, parked = end + save.held_s, parked + save.held_s
            spent += seconds
            ok = tried.fault is None or stage != tried.stages[-1][0]
            why = "" if ok or tried.fault is None else tried.fault.reason
            yield end, ev.StageEnded(**names, stage=stage, seconds=seconds, ok=ok, message=why)
            budget = Budget(total_s=BUDGET_S, spent_s=min(spent, BUDGET_S), parked_s=parked)
            yield end, ev.BudgetCharged(**names, budget=budget, queued_s=life.queued_s)
            t = end

    def _work(self, names: dict[str, object], t: float, seconds: float, *, is_whole: bool) -> Iterator[Timed]:
        chance = self._chance
        count = chance.randrange(30, 60) if is_whole else self._steps
        for n in range(1, count + 1):
            at, took = t + seconds * n / (count + 1), chance.uniform(0.1, 9)
            tokens = {"tokens_in": chance.randrange(2000, 20_000), "tokens_out": chance.randrange(40, 900)}
            is_model = n % 2 == 1
            summary = _SAYS[n * len(_SAYS) // (count + 1)]
            kind = "model" if is_model else "action"
            yield (
                at,
                ev.StepTaken.model_validate(
                    {**names, "n": n, "step_kind": kind, "summary": summary, "seconds": took, **tokens}
                ),
            )
            if is_model and is_whole:
                call = {"call_id": f"call-{n}", "model": self._model, "route": "/v1/chat/completions", "status": 200}
                yield at, ev.ModelCalled.model_validate({**names, **call, "seconds": took, **tokens})

    # -- its end -----------------------------------------------------------------------------------------------------

    def _ended(self, life: Life, tried: Try, *, is_last: bool) -> Iterator[Timed]:
        names = {"rollout_id": life.rollout_id, "attempt": tried.attempt}
        t = self._began + tried.end
        if tried.fault is not None and tried.stages[-1][0] != "verify":
            yield t, ev.AttemptMasked(**names, mask=mask_of(tried.fault))
        else:
            yield t, ev.OutcomeReached(**names, outcome=self._outcome(life, tried))
        reason = "done" if tried.fault is None else tried.fault.kind
        why = "" if tried.fault is None else tried.fault.reason
        yield t, ev.AttemptEnded(**names, reason=reason, message=why, will_retry=not is_last)

    def _outcome(self, life: Life, tried: Try) -> Outcome:
        fault = tried.fault
        status = life.status if fault is None else "masked"
        return Outcome.model_validate(
            {
                "instance_id": life.instance_id,
                "family": life.family,
                "status": status,
                "reward": 1.0 if status == "resolved" else 0.0,
                "mask": None if fault is None else mask_of(fault),
                "patch": PatchReport(
                    exists=True, applied=True, rung="git-apply", sha256=f"{self._chance.getrandbits(256):064x}"
                ),
                "tests": TestReport() if fault else tests_of(life),
                "reason": "" if status != "unresolved" else "a required test does not pass",
                "flags": ("truncated_ids",) if self._chance.random() < 0.01 else (),
                "timings_s": {"create": 0.01, "apply": 0.2, "tests": tried.stages[-1][1]},
                "provider": self._provider,
            }
        )


def tests_of(life: Life) -> TestReport:
    """Of each required test of a rollout that was graded."""
    chance = random.Random(f"tests {life.instance_id}")
    module = life.repo.rpartition("/")[2]
    fail_to_pass = [
        f"tests/test_{module}.py::test_issue_{n}[{life.instance_id[-3:]}]" for n in range(chance.choice((1, 2, 3)))
    ]
    pass_to_pass = [f"tests/test_{module}.py::test_old_{n}" for n in range(chance.randrange(3, 9))]
    chance = random.Random(f"tests {life.rollout_id} {life.status}")
    found = dict.fromkeys(fail_to_pass, "PASSED"), dict.fromkeys(pass_to_pass, "PASSED")
    if life.status == "unresolved":
        tests = found[0] if chance.random() < 0.8 else found[1]
        tests[chance.choice(list(tests))] = chance.choice(("FAILED", "FAILED", "FAILED", "ERROR", "MISSING"))
    return TestReport(fail_to_pass=found[0], pass_to_pass=found[1])
