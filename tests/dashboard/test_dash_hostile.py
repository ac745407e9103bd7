"""Markup in every field that a box, an agent, a model or a data set can write: it is shown, and none of it runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page

from swe_sdk.dashboard.views import views
from swe_sdk.model.budget import Budget
from swe_sdk.model.outcome import Mask, Outcome, PatchReport, TestReport
from swe_sdk.store import events as ev
from swe_sdk.store.writer import RunWriter
from tests.dashboard.conftest import Served

Opened = Callable[..., Page]


def _bad(where: str) -> str:
    """Every way to run that is known, and a mark to find out which one did."""
    run = f"window.ran=(window.ran||'')+'{where} '"
    return (
        f'"><img src=x onerror="{run}"><script>{run}</script><svg onload="{run}">'
        f'<a href="javascript:{run}">x</a>\'"`{{{{7*7}}}}{{% raw %}}\x1b[31mred\u202e\x00</td></pre></textarea>'
    )


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, serve_runs: Callable[..., Served]) -> Served:
    root = tmp_path_factory.mktemp("hostile")
    for name in ("one", "two"):
        _write(root / name)
    return serve_runs(root)


def _write(run_dir: Path) -> None:
    with RunWriter(run_dir, sync=False) as writer:
        add = writer.append
        add(
            ev.RunStarted(
                name=_bad("name"),
                agent=_bad("agent"),
                model=_bad("model"),
                dataset=_bad("dataset"),
                config={"agent": _bad("config"), _bad("key"): 1},
                tags={_bad("tag"): _bad("tag value")},
            )
        )
        for number, status in enumerate(("masked", "unresolved", "resolved")):
            _rollout(writer, f"{_bad('id')}.{number}", number, status)
        _rollout(writer, "plain__name-1.0", 0, "unresolved")
        names = {"rollout_id": "plain__name-1.0", "attempt": 1}
        writer.save("patch.diff", _patch().encode("utf-8", "surrogateescape"), role="patch", **names)
        writer.save("agent.log", "\n".join(_bad(f"log {n}") for n in range(50)).encode(), role="transcript", **names)
        checkpoint, snapshot = _bad("checkpoint"), _bad("snapshot")
        add(
            ev.CheckpointPhase(
                checkpoint_id=checkpoint, operation=_bad("operation"), participant=_bad("who"), seconds=1
            )
        )
        add(
            ev.CheckpointRollout(
                checkpoint_id=checkpoint, **names, held="restart", reason=_bad("restart"), tier=_bad("t")
            )
        )
        add(ev.SnapshotTaken(checkpoint_id=checkpoint, snapshot_id=snapshot, provider=_bad("provider"), size_bytes=10))
        add(ev.SnapshotReferenced(checkpoint_id=checkpoint, snapshot_id=snapshot, rollout_id=_bad("rollout")))
        add(ev.CheckpointSaved(checkpoint_id=checkpoint, path=_bad("path"), records=1))
        add(ev.CheckpointKept(checkpoint_id=checkpoint, reason=_bad("kept")))
        add(ev.RunEnded(reason="failed", message=_bad("message")))


def _rollout(writer: RunWriter, rollout: str, number: int, status: str) -> None:
    names = {"rollout_id": rollout, "attempt": 1}
    add = writer.append
    queued = {key: _bad(key) for key in ("family", "repo", "agent", "agent_version", "model", "provider")}
    instance = rollout.rpartition(".")[0]
    tags = {_bad("tag"): _bad("tag value")}
    add(ev.RolloutQueued(rollout_id=rollout, instance_id=instance, sample=number, tags=tags, **queued))
    add(ev.AttemptStarted(**names, provider=_bad("provider"), restored_from=_bad("from"), boundary=_bad("boundary")))
    add(ev.StageStarted(**names, stage="invoke_agent"))
    data = {_bad("data key"): _bad("data"), "list": [_bad("in list")]}
    add(ev.StepTaken(**names, n=1, step_kind="action", summary=_bad("summary"), data=data))
    add(ev.ModelCalled(**names, call_id="c", model=_bad("model"), route=_bad("route"), error=_bad("error")))
    add(ev.StageEnded(**names, stage="invoke_agent", seconds=1, ok=False, message=_bad("stage message")))
    add(ev.BudgetCharged(**names, budget=Budget(total_s=10, spent_s=1)))
    mask = Mask(kind="timeout", stage="agent", reason=_bad("reason"), evidence={_bad("fact"): _bad("evidence")})
    outcome = Outcome.model_validate(
        {
            "instance_id": instance,
            "family": _bad("family"),
            "status": status,
            "reward": float(status == "resolved"),
            "mask": mask if status == "masked" else None,
            "patch": PatchReport(exists=True, applied=False, rung=_bad("rung"), sha256="ab", repairs=(_bad("repair"),)),
            "tests": TestReport(fail_to_pass={_bad("test"): _bad("status")}, pass_to_pass={_bad("old"): "PASSED"}),
            "reason": _bad("outcome reason"),
            "flags": (_bad("flag"),),
            "timings_s": {_bad("timing"): 1.0},
            "provider": _bad("provider"),
        }
    )
    add(ev.OutcomeReached(**names, outcome=outcome))
    add(ev.AttemptEnded(**names, reason=_bad("end reason"), message=_bad("end message")))
    add(ev.RolloutEnded(**names, status=status, reward=outcome.reward, reason=_bad("why")))  # type: ignore[arg-type]


def _patch() -> str:
    head = f"diff --git a/{_bad('old')} b/{_bad('new')}\n--- a/x\n+++ b/{_bad('path')}\n"
    return f"{head}@@ -1 +1 @@\n-{_bad('gone')}\n+{_bad('new')}\n"


def _pages() -> list[str]:
    queries: list[dict[str, object]] = [{"view": name} for name in sorted(views()) if name != "rollout"]
    for rollout in (f"{_bad('id')}.0", "plain__name-1.0"):
        of = {"view": "rollout", "run": "one", "rollout": rollout}
        queries += [{**of, "tab": tab} for tab in ("overview", "tests", "steps", "patch", "files")]
    queries += [
        {"view": "rollout", "run": "one", "rollout": "plain__name-1.0", "tab": "files", "file": "agent.log"},
        {"view": "compare", "run": ["one", "two"]},
        {"view": "checkpoints", "run": "one", "checkpoint": _bad("checkpoint")},
        {"view": _bad("view"), "run": _bad("run"), "q": _bad("text"), "sort": _bad("sort")},
        {"view": "rollouts", "status": _bad("s"), "mask": _bad("m"), "page": _bad("p"), "agent": _bad("a")},
    ]
    return [urlencode(query, doseq=True) for query in queries]


def test_nothing_runs_on_any_page(hostile: Served, open_page: Opened) -> None:
    page = open_page(hostile.at())
    for query in _pages():
        page.goto(hostile.at(query))  # what is in the page that is sent first
        page.wait_for_selector("body[data-ready]", state="attached")
        page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        _assert_nothing_ran(page, query)


def test_nothing_runs_in_what_is_sent_later(hostile: Served, open_page: Opened) -> None:
    page = open_page(hostile.at())
    for query in _pages():
        page.evaluate(
            "query => { const a = document.createElement('a'); a.href = '?' + query; document.body.append(a);"
            " a.click(); a.remove(); }",
            query,
        )
        page.wait_for_function("() => !('busy' in document.body.dataset)")
        _assert_nothing_ran(page, query)


def _assert_nothing_ran(page: Page, query: str) -> None:
    assert page.evaluate("window.ran") is None, query
    made = page.evaluate(
        "[...document.querySelectorAll('#page script, #page img, #page iframe, #page object, #page [onload], "
        '#page [onerror], #page a[href^="javascript:"]\')].map(node => node.outerHTML)'
    )
    assert made == [], query
    assert page.locator(".problem", has_text="This view failed").count() == 0, query
