"""Commands and files on a real OpenSandbox server; what every provider must do is in the conformance suite."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import InputError
from swe_sdk.sandbox.providers.opensandbox.provider import OpenSandboxProvider
from swe_sdk.testing.checks.timeouts import TICK, TICKS
from tests.sandbox.docker.images import debian_image
from tests.sandbox.opensandbox.osb_lab import MakeBox, container_of, docker_lines, make_provider

pytestmark = pytest.mark.anyio
PATCH = (
    b"diff --git a/f b/f\r\n--- a/f\r\n+++ b/f\n@@ -1 +1 @@\n-\xff\xfe\x00\r\n+caf\xe9\n\\ No newline at end of file"
)


async def test_a1_a_box_lives_from_create_to_kill(osb_provider: OpenSandboxProvider, osb_box: MakeBox) -> None:
    box = await osb_box(image=debian_image())
    container = container_of(box)
    await box.write("/tmp/in", b"from here")
    result = await box.exec("cat /tmp/in; echo ' and there' | tee /tmp/out; exit 5")
    assert (result.exit_code, result.stdout) == (5, "from here and there\n")
    assert await box.read("/tmp/out") == b" and there\n"
    await box.close()
    assert container not in docker_lines("ps", "-aq")
    assert await osb_provider.engine.find(container) is None


async def test_a2_a_command_costs_little_more_than_itself(osb_box: MakeBox) -> None:
    box = await osb_box()
    times = []
    await box.exec("true")
    for _ in range(12):
        begin = time.perf_counter()
        result = await box.exec("true")
        times.append(time.perf_counter() - begin - result.duration_s)
    # the quickest: with others on the machine the median tells of them
    assert min(times) < 0.05, [round(one, 3) for one in times]
    assert statistics.median(times) < 0.5


async def test_a3_an_ending_is_told_as_it_was(osb_box: MakeBox) -> None:
    box = await osb_box()
    for line, code in (("exit 3", 3), ("no-such-program", 127), ("kill -9 $$", -9)):
        result = await box.exec(["sh", "-c", line])
        assert (result.status, result.exit_code) == ("exited", code)


async def test_a3_a_timeout_is_ours_and_leaves_nobody_behind(osb_box: MakeBox) -> None:
    box = await osb_box()
    result = await box.exec(f"(setsid sh -c '{TICK}' > /dev/null 2>&1 &); {TICK} & sleep 60", timeout_s=0.8)
    assert (result.status, result.exit_code) == ("timeout", None)
    assert await box.processes() == []
    assert await box.status() == "running"


async def test_a4_a_cancelled_command_is_gone_at_once(osb_box: MakeBox) -> None:
    box = await osb_box()
    with anyio.move_on_after(0.8):
        await box.exec(f"(setsid sh -c '{TICK}' > /dev/null 2>&1 &); sleep 60")
    begin = time.monotonic()
    assert await box.processes() == []
    assert time.monotonic() - begin < 2.0
    assert await box.read(TICKS)


async def test_a5_a_patch_of_any_bytes_makes_the_round_trip(osb_box: MakeBox, tmp_path: Path) -> None:
    box = await osb_box()
    await box.write("/tmp/p", PATCH)
    assert await box.read("/tmp/p") == PATCH
    assert (await box.exec(["cat", "/tmp/p"])).stdout_bytes == PATCH
    large = os.urandom(3_000_000) + PATCH
    (tmp_path / "up").write_bytes(large)
    await box.upload(tmp_path / "up", "/tmp/large")
    await box.download("/tmp/large", tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == large


async def test_what_was_started_goes_on_without_us(osb_box: MakeBox) -> None:
    box = await osb_box()
    name = await box.start("sleep 0.5; echo late; exit 4")
    assert [process.command for process in await box.processes()]
    result = await box.result(name)
    assert (result.status, result.exit_code, result.stdout) == ("exited", 4, "late\n")
    with pytest.raises(InputError, match="no command"):
        await box.result("exec-000000000000")


async def test_all_goes_through_the_server_where_boxes_cannot_be_reached(osb_box: MakeBox) -> None:
    provider = make_provider(use_server_proxy=True)
    box = await provider.create((await osb_box()).spec)
    try:
        seen: list[bytes] = []
        await box.write("/tmp/f", PATCH)
        result = await box.exec("cat /tmp/f", on_output=lambda _stream, data: seen.append(data))
        assert (result.stdout_bytes, b"".join(seen)) == (PATCH, PATCH)
    finally:
        await provider.aclose()
