"""``Limits(disk_mib=...)`` in a container, where nobody sees the layer by itself."""

from __future__ import annotations

import pytest

import swe_sdk as swe
from swe_sdk import aio
from swe_sdk.sandbox.providers.docker.provider import DockerProvider

pytestmark = pytest.mark.anyio
_MANY_FILES = (
    "for i in $(seq 1 400); do head -c 1000000 /dev/zero > /tmp/big$i || exit 3; done; sleep 60; echo all written"
)


async def test_who_writes_too_much_is_killed_and_told_why(make_box) -> None:
    box = await make_box(limits={"disk_mib": 32})
    result = await box.exec(_MANY_FILES, timeout_s=100)
    assert (result.status, result.exit_code, result.over_limit) == ("exited", -9, "disk_mib")
    assert "all written" not in result.stdout
    assert await box.status() == "running"
    assert (await box.exec("rm /tmp/big*; echo cleaned")).stdout == "cleaned\n"


async def test_the_image_below_does_not_count(make_box) -> None:
    """It holds far more than the limit."""
    box = await make_box(limits={"disk_mib": 64})
    assert int((await box.exec("du -smx / | cut -f1")).stdout) > 100
    result = await box.exec("head -c 30000000 /dev/zero > /tmp/a; sleep 5; echo fine", timeout_s=100)
    assert (result.stdout, result.over_limit) == ("fine\n", None)


async def test_a_process_in_the_background_and_files_without_a_name(make_box) -> None:
    box = await make_box(limits={"disk_mib": 32})
    loop = 'eval "exec $i>/tmp/gone"; rm /tmp/gone; head -c 10000000 /dev/zero >&$i'
    script = f"for i in $(seq 3 9); do {loop}; done; sleep 60"
    started = await box.exec(["/bin/bash", "-c", f"(setsid bash -c '{script}' > /dev/null 2>&1 &)"])
    assert started.ok
    result = await box.exec("sleep 90", timeout_s=100)
    assert result.over_limit == "disk_mib"


async def test_one_file_cannot_be_larger_than_the_limit(make_box) -> None:
    box = await make_box(limits={"disk_mib": 8})
    await box.exec("head -c 20000000 /dev/zero > /tmp/one; sleep 60", timeout_s=60)  # is ended: folders take room too
    assert int((await box.exec("stat -c %s /tmp/one", timeout_s=60)).stdout) <= 8 << 20


async def test_the_limit_is_told_to_be_watched(docker_provider: DockerProvider) -> None:
    assert (await docker_provider.probe()).limits["disk_mib"] == "watched"


async def test_a_submission_that_fills_the_disk_is_unresolved(docker_provider: DockerProvider) -> None:
    task = swe.load_tasks("mini")["mini__fairsplit-1"]
    filler = (
        "--- /dev/null\n+++ b/tests/__init__.py\n@@ -0,0 +1,4 @@\n+import time\n+for n in range(200):\n"
        "+    open(f'/tmp/{n}', 'wb').write(b'x' * 1000000)\n+time.sleep(90)\n"
    )
    outcome = await aio.grade(task, filler, provider=docker_provider, disk_mib=32, retries=0)
    assert outcome.status == "unresolved", outcome.mask
    assert outcome.evidence["failure"]["kind"] == "disk_limit", outcome.reason
