"""Some of the attacks on boxes that bubblewrap has made: those whose walls that engine builds in its own way.

All of them: ``SWE_SDK_LOCAL_ENGINE=bwrap pytest tests/escape``.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from swe_sdk.errors import ProviderUnavailable
from swe_sdk.sandbox.providers.local.bubblewrap import find_bubblewrap
from tests.escape.suite import FOLDER
from tests.shared import lacking

ATTACKS = (
    "files_of_the_supervisor",
    "magic_keys_and_other_switches",
    "mount_points_swapped_before_a_fork",
    "namespaces_within",
    "new_mounts",
    "nothing_of_this_machine_is_mounted_but_what_is_listed",
    "other_identities",
    "processes_of_this_machine",
    "secrets_of_the_kernel",
    "walking_out_of_the_root",
    "what_the_supervisor_holds",
    "writing_to_mounts",
)


@pytest.mark.timeout(200)
@pytest.mark.skipif(os.environ.get("SWE_SDK_LOCAL_ENGINE") == "bwrap", reason="they are all run with that engine")
def test_attacks_on_the_second_engine() -> None:
    try:
        find_bubblewrap()
    except ProviderUnavailable as missing:
        lacking(str(missing))
    names = " or ".join(ATTACKS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(FOLDER), "-k", names,
         "--ignore", str(FOLDER / "test_as_ordinary_user.py")],
        env={**os.environ, "SWE_SDK_LOCAL_ENGINE": "bwrap"},
        cwd=FOLDER.parents[1], capture_output=True, text=True, timeout=190, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert int(done.stdout.split(" passed")[0].split()[-1]) >= len(ATTACKS)
