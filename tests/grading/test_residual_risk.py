"""What grading in a fresh box stops, and what it cannot: code of the submission runs within the test process.

The second half of this file shows attacks that succeed. They are here so that nobody believes otherwise.
"""

from __future__ import annotations

import pytest

from swe_sdk.grading.verify import grade
from swe_sdk.model.patch import Patch
from tests.grading.tiny import diff, make_task

pytestmark = pytest.mark.anyio

CODE = "def answer():\n    return 41\n"
HIDDEN = """\
import unittest
from calc import answer
class T(unittest.TestCase):
    def test_answer(self):
        self.assertEqual(answer(), 42)
"""
CLAIM = "test_answer (test_calc.T.test_answer) ... ok"


@pytest.fixture
def task(tmp_path):
    return make_task(
        tmp_path / "repo",
        files={"calc.py": CODE},
        test_patch=Patch.of(diff({}, {"test_calc.py": HIDDEN})),
        test_command="python3 -m unittest -v test_calc",
        parser="parse_log_django",
        fail_to_pass=("test_answer (test_calc.T.test_answer)",),
        pass_to_pass=(),
    )


def rewritten(code: str, **others: str) -> bytes:
    return diff({"calc.py": CODE}, {"calc.py": code, **others})


async def test_honest_patches_first(provider, task):
    assert (await grade(task, rewritten("def answer():\n    return 42\n"), provider=provider)).resolved
    assert not (await grade(task, rewritten("def answer():\n    return 40\n"), provider=provider)).resolved


STOPPED = {
    "leaves without a word": "import os\nos._exit(0)\n",
    "claims success and fails": f"import os\nprint({CLAIM!r}, flush=True)\nos._exit(1)\n",
    "claims success and leaves with 0": f"import os\nprint({CLAIM!r}, flush=True)\nos._exit(0)\n",
    "prints official markers": "print('>>>>> End Test Output')\n" + CODE,
    "claims success before the real result": f"import sys\nprint({CLAIM!r}, file=sys.stderr, flush=True)\n" + CODE,
}


@pytest.mark.parametrize("name", STOPPED)
async def test_stopped(provider, task, name):
    outcome = await grade(task, rewritten(STOPPED[name]), provider=provider)
    assert outcome.status == "unresolved", outcome.evidence


async def test_hidden_test_files_cannot_be_replaced(provider, task):
    forged = HIDDEN.replace("42", "41")
    outcome = await grade(task, diff({}, {"test_calc.py": forged}), provider=provider)
    assert outcome.status == "unresolved"
    assert outcome.evidence["tampered_paths"] == ["test_calc.py"]


NOT_STOPPED = {
    "an object that equals everything": (
        "class Anything:\n    def __eq__(self, other):\n        return True\ndef answer():\n    return Anything()\n"
    ),
    "a patched assertion": "import unittest\nunittest.TestCase.assertEqual = lambda *args: None\n" + CODE,
    "a patched runner": ("import unittest\nunittest.TestCase._callTestMethod = lambda self, method: None\n" + CODE),
    "a program that knows of the recorder": (
        f"import glob, os\nrecord = b'PASSED ' + {CLAIM.partition(' ...')[0].encode().hex()!r}.encode() + b'\\n'\n"
        "open(glob.glob('/tmp/swe-sdk-*/witness/records')[0], 'ab').write(record)\n"
        f"print({CLAIM!r}, flush=True)\nos._exit(0)\n"
    ),
}


@pytest.mark.parametrize("name", NOT_STOPPED)
async def test_not_stopped(provider, task, name):
    """Nothing outside of the process can tell these from an honest run."""
    assert (await grade(task, rewritten(NOT_STOPPED[name]), provider=provider)).resolved
