"""Whatever bytes come as a patch get a verdict, and nothing resolves without the section that was captured here."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from swe_sdk.grading.verify import grade
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import Task
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.registry import recipe_names
from swe_sdk.store.results import Results
from tests.grading.faulty import FaultyProvider
from tests.grading.tiny import GOLD, WRONG, make_task
from tests.shared import lacking

PIECES = st.sampled_from(
    [
        *(GOLD, WRONG, GOLD[:60], GOLD[60:], b"--- a/src.txt\n", b"+++ b/src.txt\n", b"@@ -1 +1 @@\n", b"-line 1\n"),
        *(b"+answer = 42\n", b"diff --git a/x b/x\n", b"new file mode 100755\n", b"rename from src.txt\n", b"\r\n"),
        *(b"GIT binary patch\n", b"literal 3\n", b"deleted file mode 100644\n", b"--- /dev/null\n", b"+++ b/../x\n"),
        *(b"index 1..2\n", b"\0", b"\xff\xfe", b"+++ b/.git/config\n", b"*** a\n", b"1c1\n", b"Index: src.txt\n"),
    ]
)
PATCHES = st.binary(max_size=200) | st.lists(PIECES | st.binary(max_size=6), max_size=6).map(b"".join)
RANDOM = settings(
    max_examples=20, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return make_task(tmp_path_factory.mktemp("tiny") / "repo")


@RANDOM
@example(GOLD)
@example(b"")
@example(GOLD.replace(b"\n", b"\r\n"))
@given(PATCHES)
def test_every_patch_gets_a_verdict(provider, tiny: Task, data: bytes) -> None:
    """Never an exception, and never a mask: a submission cannot be so strange that nobody could have measured it."""
    outcome = anyio.run(lambda: grade(tiny, Patch.of(data), provider=provider, retries=0))
    assert outcome.status in ("resolved", "unresolved"), (data, outcome.mask)
    assert not (outcome.resolved and b"answer = 42" not in data)
    if outcome.resolved:
        assert outcome.patch.applied


@RANDOM
@given(
    st.lists(st.sampled_from([GOLD, b"garbage\n", b"\n"]), min_size=1, max_size=3).map(b"".join), st.integers(0, 400)
)
def test_cut_and_repeated_patches_get_a_verdict(provider, tiny: Task, data: bytes, end: int) -> None:
    outcome = anyio.run(lambda: grade(tiny, Patch.of(data[:end]), provider=provider, retries=0))
    assert not outcome.masked, (data[:end], outcome.mask)


# -- the section -----------------------------------------------------------------------------------------------------

WITHOUT_PACKAGES = {
    "swe-bench": "mini__fairsplit-1",
    "swe-bench-ext": "mini__duration-1",
    "nv-internal-1": "mini__linewrap-1",
    "swe-rebench": "mini__camel-1",
    "r2e-gym": "mini__tally-1",
    "swe-bench-multilingual": "mini__expandtabs-1",
}
"""A bundled task of each family; what its tests print is known, and so is what they leave behind."""


@cache
def task_of(family: str) -> Task:
    return load_tasks("mini")[WITHOUT_PACKAGES[family]]


def test_every_family_is_here() -> None:
    assert set(WITHOUT_PACKAGES) == set(recipe_names())


class Silent(FaultyProvider):
    """Runs everything but the tests, which say and leave nothing; ``said`` is what they would have printed."""

    def __init__(self, state: Path, said: bytes) -> None:
        super().__init__(state, on_exec=self._answer)
        self._said = said

    def _answer(self, command: Any) -> ExecResult | None:
        if not (isinstance(command, list) and str(command[-1]).endswith("tests.sh")):
            return None
        return ExecResult(status="exited", exit_code=0, stderr_bytes=self._said)


async def gold_log(provider: Any, task: Task, folder: Path) -> tuple[Outcome, bytes]:
    outcome = await grade(task, task.grading.gold_patch, provider=provider, results=Results(folder))
    if outcome.mask is not None and outcome.mask.kind in ("missing_tool", "environment_failed"):
        lacking(outcome.mask.reason)
    return outcome, Path(outcome.artifacts["log"]).read_bytes()


@pytest.mark.anyio
@pytest.mark.network
@pytest.mark.parametrize("family", WITHOUT_PACKAGES)
async def test_nothing_resolves_without_the_section_of_our_own_supervisor(
    provider, tmp_path: Path, family: str
) -> None:
    """The gold patch, a prelude that prints the log of a passing run, markers and all, and files in every corner."""
    task = task_of(family)
    outcome, log = await gold_log(provider, task, tmp_path / "first")
    assert outcome.resolved, outcome.reason
    shutil.rmtree(tmp_path / "first")
    spoken = task.grading.prelude + "\ncat <<'SPOKEN'\n" + log.decode("utf-8", "replace") + "\nSPOKEN\n"
    loud = task.model_copy(update={"grading": task.grading.model_copy(update={"prelude": spoken})})
    assert (await grade(loud, task.grading.gold_patch, provider=provider)).resolved, "it disturbs no honest run"
    silent = Silent(provider.state, log)
    try:
        for each in (task, loud):
            forged = await grade(each, task.grading.gold_patch, provider=silent, retries=0)
            assert not forged.resolved, forged.evidence
            required = {**forged.tests.fail_to_pass, **forged.tests.pass_to_pass}
            assert set(required.values()) <= {"MISSING"}
    finally:
        await silent.aclose()
