"""A task small enough to be graded in a tenth of a second, for tests of what carries grades out."""

from __future__ import annotations

from pathlib import Path

from swe_sdk.model.environment import DirectorySource, SourceEnvironment
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import GradingSpec, Task

GOLD = "--- a/src.txt\n+++ b/src.txt\n@@ -1 +1 @@\n-answer = 41\n+answer = 42\n"
_TEST_PATCH = "--- /dev/null\n+++ b/tests/extra.sh\n@@ -0,0 +1 @@\n+true\n"
_VERDICT = 'grep -q "answer = 42" src.txt && echo "PASSED check::answer" || echo "FAILED check::answer"'


def tiny_task(folder: Path, *, sleep_s: float = 0.0) -> Task:
    """A text file to fix, and a script that tests it, in a new directory ``folder``.

    ``sleep_s`` = how long the tests take, with hardly any processor time.
    """
    (folder / "tests").mkdir(parents=True)
    (folder / "src.txt").write_text("answer = 41\n")
    (folder / "tests" / "check.sh").write_text(f"sleep {sleep_s}\n{_VERDICT}\n")
    grading = GradingSpec(
        test_patch=Patch.of(_TEST_PATCH),
        fail_to_pass=("check::answer",),
        test_command="sh tests/check.sh",
        parser="parse_log_pytest",
        gold_patch=Patch.of(GOLD),
    )
    environment = SourceEnvironment(source=DirectorySource(path=str(folder)))
    return Task(instance_id="tiny", family="swe-bench", repo="tiny", environment=environment, grading=grading)
