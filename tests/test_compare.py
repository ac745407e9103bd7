"""``swe.compare`` and ``swe-sdk compare``, from whatever holds outcomes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import swe_sdk as swe
from swe_sdk import aio
from swe_sdk.cli import main
from swe_sdk.errors import InputError
from swe_sdk.grading.outcomes import Outcomes
from swe_sdk.metrics import Comparison
from swe_sdk.runs.run import Run
from swe_sdk.store.results import Results
from tests.notebook import made_run as made

FLIPPED = tuple(
    each._replace(status={"resolved": "unresolved", "unresolved": "resolved"}[each.status])
    if each.status != "masked" and number in (0, 1, 4)
    else each
    for number, each in enumerate(made.ROLLOUTS)
)
"""The first was resolved and is not, the second and fifth are now."""


def changes(comparison: Comparison) -> dict[str, int]:
    return {change: count for change, count in comparison.counts.items() if count}


WANTED = {"gained": 2, "lost": 1, "same": 4, "masked": 3}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("compared")
    return made.write_run(folder / "old"), made.write_run(folder / "new", FLIPPED)


def test_runs_and_their_directories(runs: tuple[Path, Path]) -> None:
    old, new = runs
    by_path = swe.compare(old, str(new))
    assert (by_path.a, by_path.b, changes(by_path)) == ("old", "new", WANTED)
    with Run(old) as a, Run(new) as b:
        assert swe.compare(a, b).to_dict() == by_path.to_dict()
    assert asyncio.run(aio.compare(old, new)).to_dict() == by_path.to_dict()
    assert [pair.instance_id for pair in by_path] == [each.instance_id for each in made.ROLLOUTS]
    assert by_path["django__django-11099"].family == "swe-bench"
    assert by_path.p_value == 1.0
    assert by_path.difference.value == pytest.approx(1 / 7)


def test_outcomes_results_and_files_come_to_the_same(runs: tuple[Path, Path], tmp_path: Path) -> None:
    results = Results(tmp_path / "results")
    for each in made.ROLLOUTS:
        results.append(made.outcome_of(each))
    outcomes = Outcomes([made.outcome_of(each) for each in FLIPPED])
    from_run = swe.compare(*runs).to_frame()
    for a, b in ((results.path, outcomes), (results.outcomes_path, outcomes), (runs[0], outcomes)):
        assert swe.compare(a, b).to_frame().equals(from_run)


def test_two_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for side in ("a", "b"):
        made.write_run(tmp_path / side / "run", made.ROLLOUTS[:1], checkpoints=False)
    found = swe.compare(tmp_path / "a" / "run", tmp_path / "b" / "run")
    assert (found.a, found.b) == ("run (a)", "run (b)")


def test_what_is_not_over_is_no_sample(tmp_path: Path) -> None:
    from swe_sdk.store import events as ev
    from swe_sdk.store.writer import RunWriter

    with RunWriter(tmp_path / "run", sync=False) as writer:
        writer.append(ev.RunStarted())
        writer.append(ev.RolloutQueued(rollout_id="a.0", instance_id="a"))
        writer.append(ev.RolloutEnded(rollout_id="b.0", attempt=1, status="stopped"))
    assert len(swe.compare(tmp_path / "run", tmp_path / "run")) == 0


@pytest.mark.parametrize("name", ["nothing", "empty"])
def test_what_holds_no_outcomes_is_bad_input(name: str, tmp_path: Path, runs: tuple[Path, Path]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "outcomes.jsonl").write_text("")
    with pytest.raises(InputError, match=name):
        swe.compare(runs[0], tmp_path / name)
    assert main(["compare", str(runs[0]), str(tmp_path / name)]) == 2


def test_on_the_command_line(runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [str(path) for path in runs]
    assert main(["compare", *names]) == 0
    told = capsys.readouterr().out
    assert "2 gained, 1 lost, 4 the same of 7 measured in both, 3 masked" in told
    assert "django__django-12453" in told
    assert "rust-lang__cargo-9133" not in told, "what did not change is not listed"
    assert main(["compare", *names, "--all"]) == 0
    assert "rust-lang__cargo-9133" in capsys.readouterr().out
    assert main(["compare", *names, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(swe.compare(*runs).to_dict()))
    assert main(["compare", *names, "--strict"]) == 1, "one was lost"
    assert main(["compare", names[0], names[0], "--strict"]) == 0


def test_it_is_drawn_into_a_file(runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [str(path) for path in runs]
    assert main(["compare", *names, "--plot", str(tmp_path / "flips.png")]) == 0
    assert (tmp_path / "flips.png").read_bytes().startswith(b"\x89PNG")
    assert main(["compare", *names, "--plot", str(tmp_path / "flips.jpgg")]) == 2
    assert "cannot draw" in capsys.readouterr().err
    assert main(["compare", *names, "--plot", "/dev/null/flips.png"]) == 2
