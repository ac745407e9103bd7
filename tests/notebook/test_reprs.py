"""What each object shows: the facts, in HTML and in text."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest

from swe_sdk.grading.health import Health, TaskHealth
from swe_sdk.grading.outcomes import Outcomes
from swe_sdk.model.budget import Budget
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.outcome import Mask, Outcome, PatchReport, TestReport
from swe_sdk.model.patch import Patch
from swe_sdk.model.policy import FailureKind
from swe_sdk.notebook import amounts
from swe_sdk.notebook.blocks import Table
from swe_sdk.notebook.css import style_rules
from swe_sdk.notebook.html import Html, element, stylesheet
from swe_sdk.notebook.palette import MASK_KIND
from swe_sdk.notebook.reprs.mask import ADVICE, remedy_of
from swe_sdk.notebook.reprs.show import VIEWS, view_of
from swe_sdk.runs.run import Run
from swe_sdk.shown import Shown
from swe_sdk.store import events as ev
from swe_sdk.store.writer import RunWriter
from tests.notebook.kernel import ROOT
from tests.notebook.made_run import KEPT_CHECKPOINTS, ROLLOUTS, write_run
from tests.notebook.shown_objects import write_run as write_run_of

PATCH = PatchReport(exists=True, applied=True, rung="git-apply", sha256="0" * 64)


def words(html: str) -> str:
    """The text of HTML, without its style sheet."""
    text = re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


def both(shown: Shown) -> tuple[str, str]:
    """What is read in a notebook, and on a terminal."""
    return words(shown._repr_html_()), " ".join(str(shown).split())


def outcome(status: str = "unresolved", **changes: Any) -> Outcome:
    fields = {"instance_id": "a__b-1", "family": "f", "status": status, "reward": 1.0 if status == "resolved" else 0.0}
    return Outcome(**{**fields, "patch": PATCH, **changes})  # type: ignore[arg-type]


# -- the room ----------------------------------------------------------------------------------------------------------


def test_markup_is_made_in_one_place_only() -> None:
    with pytest.raises(TypeError, match="element"):
        Html("<b>", made_by=None)
    with pytest.raises(ValueError, match="no markup"):
        stylesheet("</style>")
    assert element("td", "<b>", title='"', open=True, class_=None).markup == (
        '<td title="&quot;" open="open">&lt;b&gt;</td>'
    )


def test_every_view_belongs_to_a_class_that_shows_itself() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "swe_sdk").rglob("*.py"))
    assert set(re.findall(r"^class (\w+)\(Shown\b", sources, re.MULTILINE)) == set(VIEWS)
    for place in VIEWS.values():
        module, _, function = place.partition(":")
        assert callable(getattr(import_module(f"swe_sdk.notebook.reprs.{module}"), function))


def test_what_has_no_view_says_so() -> None:
    with pytest.raises(LookupError, match="object"):
        view_of(object())


def test_showing_imports_nothing_heavy() -> None:
    program = """
import sys, swe_sdk as swe
tasks = swe.load_tasks("mini")
tasks._repr_html_(), str(tasks[0]), tasks[0].grading.gold_patch._repr_html_(), swe.Budget()._repr_html_()
heavy = {"pandas", "matplotlib", "panel", "docker", "ray", "rich", "IPython", "numpy"} & set(sys.modules)
print(sorted(heavy))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_pages_that_are_dark_in_their_own_way_get_lighter_colours() -> None:
    """What each page looks like is tried in ``test_page_colours``."""
    rules = style_rules()
    assert "\n" not in rules
    assert rules.count("{") == rules.count("}")
    for page in ('data-jp-theme-light="false"', "vscode-theme-kind", 'md-color-scheme="slate"', 'theme="dark"'):
        assert page in rules
    assert "DARK" not in rules
    assert "http" not in rules
    assert "url(" not in rules


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, ""), (0, "0 s"), (0.0004, "0.4 ms"), (0.05, "50 ms"), (0.4, "0.4 s"), (9.96, "10 s"), (59.6, "1m 00s"),
     (61, "1m 01s"), (3599.9, "1h 00m"), (7500, "2h 05m"), (90_000, "1d 01h")],
)  # fmt: skip
def test_seconds_are_short(seconds: float | None, shown: str) -> None:
    assert amounts.seconds(seconds) == shown


def test_sizes_are_short() -> None:
    assert [amounts.size(n) for n in (0, 1023, 1536, 20 << 20, 5 << 40, 9 << 60)] == [
        *("0 B", "1023 B", "1.5 KiB", "20 MiB", "5.0 TiB", "9437184 TiB")
    ]


def test_columns_that_say_nothing_are_left_out() -> None:
    rows = [("a", "", None, 0), ("b", "", (), 0)]
    table = Table(("name", "why", "where", "count"), rows, total=9).first(2)
    assert (table.head, table.rows, table.count) == (("name", "count"), [("a", 0), ("b", 0)], 9)
    assert Table(("name", "why"), []).first(2).head == ("name", "why")


# -- outcomes ----------------------------------------------------------------------------------------------------------


def test_there_is_advice_for_every_kind_of_mask() -> None:
    assert set(ADVICE) == set(get_args(FailureKind)) == set(MASK_KIND)


def test_a_mask_says_what_to_do() -> None:
    lost = Mask(kind="sandbox_lost", stage="tests", reason="it died", retryable=True, evidence={"box": "box-1"})
    for text in both(outcome("masked", mask=lost)):
        assert "masked a__b-1" in text
        assert "no measurement" in text
        assert "sandbox lost in tests" in text
        assert "it died" in text
        assert ADVICE["sandbox_lost"] in text
        assert "worth a new attempt" in text
        assert "reward" not in text, "a masked 0.0 is no measurement"
        assert "F2P" not in text, "and no test failed"
    assert '"box": "box-1"' in words(outcome("masked", mask=lost)._repr_html_()).replace("&quot;", '"')
    own = lost.model_copy(update={"evidence": {"remedy": "start the daemon"}, "retryable": False})
    assert remedy_of(own) == "start the daemon"
    assert "start the daemon" in words(own._repr_html_())


def test_tests_that_did_not_pass_come_first_and_all_are_counted() -> None:
    tests = TestReport(
        fail_to_pass={"t::new": "FAILED"},
        pass_to_pass={**{f"t::old[{n}]": "PASSED" for n in range(70)}, "t::gone": "MISSING"},
    )
    html, text = both(outcome(tests=tests, reason="2 tests did not pass", timings_s={"tests": 3.0, "total": 4.0}))
    for shown in (html, text):
        assert shown.index("t::new") < shown.index("t::gone") < shown.index("70 required tests passed")
        assert "F2P 0/1" in shown
        assert "P2P 70/71" in shown
        assert "time 4.0 s" in shown
        assert "reward 0.0" in shown
    assert "and 20 more" in html


def test_outcomes_keep_masks_apart() -> None:
    lost = Mask(kind="host_oom", stage="tests", reason="no memory")
    outcomes = Outcomes([outcome("resolved"), outcome(), outcome("masked", mask=lost)], skipped=["z"])
    for text in both(outcomes):
        assert "0.500 over what was measured" in text
        assert re.search(r"resolved 1\b.*unresolved 1\b.*masked 1\b", text)
        assert "host oom 1" in text
        assert "without a patch" in text


def test_health_names_what_is_missing_here() -> None:
    health = Health(
        [
            TaskHealth(instance_id="a", status="healthy", runs={"gold": ("resolved",) * 3}, seconds=1.5, disk_mib=30),
            TaskHealth(
                instance_id="b", status="unknown", mask="missing_tool in environment: node", missing_tool="node"
            ),
            TaskHealth(instance_id="c", status="unhealthy", problems=("it is wrong",), flaky=("t::x",)),
        ]
    )
    for text in both(health):
        assert "node (1 task)" in text
        assert "3/3" in text
        assert "30 MiB" in text
        assert "it is wrong" in text
    for text in both(health[2]):
        assert "t::x" in text


# -- commands, patches, budgets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (ExecResult(status="exited", exit_code=0), "✓ exited with code 0"),
        (ExecResult(status="exited", exit_code=3), "✗ exited with code 3"),
        (ExecResult(status="exited", exit_code=-9), "✗ was ended by SIGKILL"),
        (ExecResult(status="timeout", duration_s=2), "⊘ timed out after 2.0 s"),
        (ExecResult(status="oom"), "⊘ ran out of memory"),
        (ExecResult(status="lost"), "⊘ was lost with its sandbox"),
    ],
)
def test_a_command_says_how_it_ended(result: ExecResult, said: str) -> None:
    for text in both(result):
        assert text.startswith(said)


def test_long_output_loses_its_middle_and_says_so() -> None:
    data = b"".join(b"line %d\n" % n for n in range(1000))
    result = ExecResult(status="exited", exit_code=0, stdout_bytes=data, stdout_dropped_bytes=5 << 20)
    for text, shown in zip(both(result), (60, 40), strict=True):
        assert "line 0 " in text
        assert "line 999" in text
        assert "line 500" not in text
        assert f"{1000 - shown} lines left out" in text
        assert "5.0 MiB of its middle were not kept" in text


DIFF = """diff --git a/kept.sql b/kept.sql
index 1..2 100644
--- a/kept.sql
+++ b/kept.sql
@@ -1,2 +1,2 @@
--- a comment that goes
+++ one that comes
 stays
diff --git a/new file.txt b/new file.txt
new file mode 100644
--- /dev/null
+++ b/new file.txt
@@ -0,0 +1 @@
+hello
diff --git a/gone.py b/gone.py
deleted file mode 100644
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-x = 1
diff --git a/old.py b/moved.py
similarity index 100%
rename from old.py
rename to moved.py
"""
PLAIN = "--- a/one.c\n+++ b/one.c\n@@ -1 +1 @@\n-a\n+b\n--- a/two.c\n+++ b/two.c\n@@ -1 +1 @@\n-a\n+b\n"


def test_a_patch_has_one_fold_a_file() -> None:
    patch = Patch.of(DIFF)
    html = patch._repr_html_()
    folds = [words(fold) for fold in re.findall(r"<summary>(.*?)</summary>", html)]
    assert folds == [
        "kept.sql +1 -1",
        "new file.txt new +1 -0",
        "gone.py deleted +0 -1",
        "moved.py renamed +0 -0",
    ]
    assert len(patch.files) == len(folds)
    assert '<span class="p">+hello\n</span>' in html
    assert '<span class="m">-x = 1\n</span>' in html
    assert '<span class="h">--- a/kept.sql\n</span>' in html, "of the header nothing is taken away or added"
    assert "Patch 4 files" in str(patch)
    assert "kept.sql +1 -1" in str(patch)
    assert [line.strip() for line in str(Patch.of(PLAIN)).splitlines() if ".c +1" in line] == [
        "one.c +1 -1",
        "two.c +1 -1",
    ]


def test_small_patches_stand_open_and_large_ones_do_not() -> None:
    small = Patch.of(DIFF[: DIFF.index("diff --git a/gone")])
    assert small._repr_html_().count('<details open="open">') == 2
    large = Patch.of("".join(DIFF.replace("kept", f"kept{n}") for n in range(100)))
    html = large._repr_html_()
    assert "open=" not in html
    assert html.count("<details>") == 50
    assert "and 350 more files" in html
    assert words(Patch.of("")._repr_html_()).startswith("Patch empty")


def test_a_budget_is_a_bar_whose_parts_are_the_seconds() -> None:
    html, text = both(Budget(total_s=100, spent_s=25, parked_s=25))
    for shown in (html, text):
        assert "of 1m 40s" in shown
        assert re.search(r"spent 25 s.*parked 25 s.*remaining 1m 15s", shown)
    widths = re.findall(r"width:([\d.]+)%", Budget(total_s=100, spent_s=25, parked_s=25)._repr_html_())
    assert widths == ["20.00", "20.00", "60.00"]
    assert "without limit" in both(Budget(spent_s=3))[0]
    assert "all of it is spent" in both(Budget(total_s=3, spent_s=3))[1]


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Run(write_run(tmp_path_factory.mktemp("made") / "run")) as run:
        yield run


def test_a_run_shows_counts_masks_and_rollouts(run: Run) -> None:
    for text in both(run):
        assert "finished" in text
        assert re.search(r"resolved 4\b.*unresolved 3\b.*masked 3\b", text)
        assert "verifier unreachable 1" in text
        assert ROLLOUTS[0].instance_id in text
    assert words(run._repr_html_()).count("django__django-1") == 2


@pytest.mark.parametrize("end", [ev.RunEnded(reason="stopped", message="deadline"), None], ids=["stopped", "killed"])
def test_what_was_going_on_when_a_run_ended_is_cut_off(tmp_path: Path, end: ev.RunEnded | None) -> None:
    told = (
        ev.RunStarted(name="made", agent="scripted"),
        ev.RolloutQueued(rollout_id="a.0", instance_id="a"),
        ev.AttemptStarted(rollout_id="a.0", attempt=1),
        ev.StageStarted(rollout_id="a.0", attempt=1, stage="invoke_agent"),
    )
    with RunWriter(tmp_path, sync=False) as writer:
        for event in told:
            writer.append(event)
        with Run(tmp_path) as going_on:
            assert all("running 1" in text for text in both(going_on))
            assert "running" in repr(going_on.rollouts["a.0"])
            assert all("going on" in text for text in both(going_on.rollouts["a.0"]))
        if end is not None:
            writer.append(end)
    with Run(tmp_path) as ended:
        assert all("cut off 1" in text for text in both(ended))
        rollout = ended.rollouts["a.0"]
        assert (rollout.status, rollout.word) == ("running", "cut off")
        assert "cut off" in [text.get_text().removeprefix("■ ") for text in ended.plot_gantt().texts]
        for text in (*both(ended), *both(ended.rollouts), *both(rollout), repr(rollout)):
            assert "cut off" in text
            assert "running" not in text
            assert "going on" not in text


def test_a_rollout_shows_its_timeline_budget_and_steps(run: Run) -> None:
    rollout = run.rollouts["django__django-11099.0"]
    html, text = both(rollout)
    for shown in (html, text):
        assert re.search(r"seed.*4\.0 s.*invoke_agent.*10m 10s.*verify.*1m 35s", shown)
        assert "parked 2m 00s" in shown
        assert "3 steps" in shown
        assert "tokens" not in shown, "it had no model"
    starts = [float(n) for n in re.findall(r"margin-left:([\d.]+)%", rollout._repr_html_())]
    assert starts == sorted(starts)
    assert len(starts) == 5
    retried = run.rollouts["tokio-rs__tokio-4384.0"]
    assert "attempt 3" in both(retried)[0]
    assert "2 earlier masks" in both(retried)[0]
    assert re.search(r"attempt 1: seed.*40 s.*cut off.*attempt 3: seed.*11 s", both(retried)[1])


def test_a_step_and_a_call_show_themselves(tmp_path: Path) -> None:
    write_run_of(tmp_path / "run", "echo hello")
    with Run(tmp_path / "run") as run:
        (step,), (call,) = run.rollouts["echo hello"].steps, run.rollouts["echo hello"].model_calls
    for text in both(step):
        assert re.search(r"Step 1 action 1\.0 s.*summary.*echo hello.*data", text)
    for text in both(call):
        assert re.search(r"Model call echo hello.*no answer.*route.*request.*response", text)
    assert repr(step) == "StepRow(n=1, attempt=2, kind='action', seconds=1.0, summary='echo hello')"
    assert repr(call).startswith("ModelCallRow(model='echo hello', attempt=2, status=None,")
    assert "HTTP 200" in both(call.model_copy(update={"status": 200}))[0]
    for text in both(call.model_copy(update={"call": None})):
        assert "not there any more" in text


def test_checkpoints_show_what_each_holds(run: Run, tmp_path: Path) -> None:
    from swe_sdk.runs.checkpoints.view import Checkpoint
    from swe_sdk.store.checkpoints import Details, Saved

    number = KEPT_CHECKPOINTS[0]
    details = Details(number=number, created_at=1.7e9, phases_s={"prepare": 1.5, "commit": 0.25, "resume": 0.05})
    saved = Saved(checkpoint_id=f"checkpoint-{number}-abcd", path=str(tmp_path), status="complete", details=details)
    for text in both(Checkpoint(saved, run._index)):
        assert "kept" in text
        assert re.search(r"prepare 1\.5 s.*commit 0\.2 s.*resume 50 ms", text)
        assert "310 MiB" in text
        assert "2 of 2 checkpoints" in text
    assert "0 checkpoints, 0 kept" in both(run.checkpoints)[0]
