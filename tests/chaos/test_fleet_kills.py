"""Kills of a process with 24 rollouts of three agents on two providers, which all save themselves:
SWE_SDK_FLEET_KILLS (``make chaos``: 50), SWE_SDK_FLEET_OPENHANDS_KILLS (6), from SWE_SDK_SEED; SWE_SDK_FLEET_AGENTS
chooses some of the agents."""

import os
from collections.abc import Sequence
from itertools import product

import pytest

from swe_sdk.paths import harnesses_dir
from swe_sdk.testing import ScriptedModel
from tests.agents.harness_lab import need_harness_installed
from tests.chaos.docker_kill_points import Place
from tests.chaos.fleet_kills import Report, Yard, kill_often, undisturbed
from tests.chaos.fleet_program import Part, save_fleet, scripts

_KILLS = int(os.environ.get("SWE_SDK_FLEET_KILLS") or 1)
_OPENHANDS_KILLS = int(os.environ.get("SWE_SDK_FLEET_OPENHANDS_KILLS") or 0)
_SEED = int(os.environ.get("SWE_SDK_SEED") or 1)
_AGENTS = (os.environ.get("SWE_SDK_FLEET_AGENTS") or "scripted,mini-swe-agent,opencode").split(",")
_PROVIDERS = ("local", "docker")
_ROLLOUTS = {"scripted": 5, "mini-swe-agent": 5, "opencode": 2}
"""Of each agent on each provider: 24 in all, or one each where there is a single kill."""
_DEAR = Part("opencode", "local", 1)
"""Left out where there is a single kill: two servers of OpenCode at once take a minute to begin."""


@pytest.mark.network
@pytest.mark.timeout(600 + 120 * _KILLS)
def test_nothing_is_lost_or_done_twice(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {agent: count if _KILLS > 1 else 1 for agent, count in _ROLLOUTS.items() if agent in _AGENTS}
    both = [Part(agent, provider, count) for (agent, count), provider in product(counts.items(), _PROVIDERS)]
    parts = [part for part in both if _KILLS > 1 or part != _DEAR]
    _test(parts, _KILLS, 45.0, place, monkeypatch)


@pytest.mark.network
@pytest.mark.skipif(not _OPENHANDS_KILLS, reason="only with SWE_SDK_FLEET_OPENHANDS_KILLS: it needs minutes")
@pytest.mark.timeout(600 + 180 * max(1, _OPENHANDS_KILLS))
def test_openhands_goes_on_from_its_steps(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    _test([Part("openhands", provider, 2) for provider in _PROVIDERS], _OPENHANDS_KILLS, 120.0, place, monkeypatch)


def _test(parts: Sequence[Part], kills: int, longest_s: float, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWE_SDK_HARNESSES", str(harnesses_dir()))
    monkeypatch.setenv("SWE_SDK_INDEX", str(place.folder / "index"))
    for name in {part.agent for part in parts} - {"scripted"}:
        need_harness_installed(name)
    save_fleet(place.folder, parts, every_s=2.0)
    with ScriptedModel(dict(scripts(parts))) as model:
        yard = Yard(place, parts, model)
        truth = undisturbed(yard)
        report = kill_often(yard, truth, _SEED, kills, longest_s)
    print_table(report, truth.seconds)
    assert report.problems == []
    assert report.kills >= kills
    assert kills == 1 or all(tally.restored for tally in report.tallies.values()), "nothing went on from a checkpoint"


def print_table(report: Report, seconds: float) -> None:
    """What came of all of them."""
    print(f"\n{report.kills} kills of {report.runs} runs of {seconds:.0f} s, seed {_SEED}")
    print(
        "| rollouts | checkpoints | went on | started over | steps | first calls | budget off by | parked | problems |"
    )
    print(
        "| -------- | ----------: | ------: | -----------: | ----: | ----------: | ------------: | -----: | -------: |"
    )
    for name, tally in report.tallies.items():
        wrong = sum(f"/{name}:" in problem for problem in report.problems)
        parked = sum(tally.parked_s) / max(1, len(tally.parked_s))
        print(
            f"| {name}: {tally.rollouts} | {tally.checkpoints} | {tally.restored} | {tally.over} | {tally.steps} "
            f"| {tally.calls} | {tally.off_s * 1000:.0f} ms | {parked:.1f} s | {wrong} |"
        )
