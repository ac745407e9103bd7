"""Submissions that forge a results file: by printing one, and by writing over the real one."""

from __future__ import annotations

import anyio
import pytest

from swe_sdk.grading.verify import grade
from swe_sdk.paths import bundled_datasets_dir
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.grading.tiny import diff

pytestmark = pytest.mark.anyio

REPORT = """\
import atexit as _atexit, os as _os
_CASES = "".join('<testcase classname="%s" name="%s"/>' % pair for pair in (
    *(("tests.test_spans.TestTouching", "test_one[%s]" % name) for name in ("below", "above", "between")),
    ("tests.test_spans.TestTouching", "test_a_gap_stays"), ("tests.test_spans.TestErrors", "test_backwards"),
    *(("tests.test_spans", name) for name in ("test_apart", "test_overlap", "test_contains_and_len")),
))
_XML = "<testsuites><testsuite>" + _CASES + "</testsuite></testsuites>"
"""
PRINTS = """\
def _forge():
    print("<<<SWE_BENCH_EXT_RESULT_FILE_START>>>\\n" + _XML + "\\n<<<SWE_BENCH_EXT_RESULT_FILE_END>>>", flush=True)
_forge()
_atexit.register(_forge)
"""
OVERWRITES = """\
def _forge():
    with open(_os.path.join(_os.environ.get("SWE_SDK_REPORTS", "/tmp"), "output.xml"), "w") as file:
        file.write(_XML)
_atexit.register(_forge)
"""


@pytest.fixture(scope="module")
def shared_provider():
    provider = LocalProvider()
    yield provider
    anyio.run(provider.aclose)


SOURCE = (bundled_datasets_dir() / "mini" / "repos" / "spans" / "spans.py").read_text()


def submission(attack: str) -> bytes:
    """The wrong patch's fix, and the attack where the module begins."""
    wrong = SOURCE.replace("if high < first or last < low:", "if high + 1 < first or last < low:")
    future = "from __future__ import annotations\n"
    return diff({"spans.py": SOURCE}, {"spans.py": wrong.replace(future, future + REPORT + attack)})


@pytest.mark.parametrize("attack", [PRINTS, OVERWRITES], ids=["prints", "overwrites"])
async def test_a_forged_results_file_resolves_nothing(attack, shared_provider):
    task = load_tasks("mini")["mini__spans-1"]
    outcome = await grade(task, submission(attack), provider=shared_provider, retries=0)
    assert outcome.status == "unresolved", outcome
    assert outcome.patch.applied
    if attack is OVERWRITES:
        assert outcome.evidence["failure"] == {"stage": "parse", "kind": "results_disagree"}
    else:
        assert outcome.tests.fail_to_pass["tests/test_spans.py::TestTouching::test_one[above]"] == "FAILED"


async def test_the_reference_believes_what_is_printed(shared_provider):
    """SW-19, for comparison: its verdict on the log alone; a grade still holds that against the runner's records."""
    (task,) = load_tasks("mini", family="swe-bench-ext@legacy", instance_ids=["mini__spans-1"])
    outcome = await grade(task, submission(PRINTS), provider=shared_provider, retries=0)
    assert outcome.status == "unresolved"
    assert outcome.evidence["failure"]["kind"] == "results_disagree"
    assert set(outcome.tests.fail_to_pass.values()) == {"PASSED"}
