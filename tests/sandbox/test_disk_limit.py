"""``Limits(disk_mib=...)``: what all files of a box may hold together."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import TransferFailed
from swe_sdk.sandbox.contract import Limits, SandboxSpec
from swe_sdk.sandbox.providers.local.provider import LocalProvider

pytestmark = pytest.mark.anyio
_MANY_FILES = "for i in $(seq 1 400); do head -c 1000000 /dev/zero > big$i || exit 3; done; echo all written"


async def test_who_writes_too_much_is_killed_and_told_why(provider: LocalProvider) -> None:
    box = await provider.create(SandboxSpec(limits=Limits(disk_mib=32)))
    result = await box.exec(_MANY_FILES, timeout_s=60)
    assert (result.status, result.exit_code, result.over_limit) == ("exited", -9, "disk_mib")
    assert "disk limit" in result.summary
    assert "all written" not in result.stdout
    assert await box.status() == "running"
    await box.close()


async def test_what_stays_below_the_limit_is_let_be(provider: LocalProvider) -> None:
    box = await provider.create(SandboxSpec(limits=Limits(disk_mib=64)))
    result = await box.exec("head -c 40000000 /dev/zero > a; sleep 1; rm a; head -c 40000000 /dev/zero > b; sleep 1")
    assert (result.ok, result.over_limit) == (True, None)
    await box.close()


async def test_a_full_box_can_be_cleaned(provider: LocalProvider) -> None:
    box = await provider.create(SandboxSpec(limits=Limits(disk_mib=32)))
    assert (await box.exec(_MANY_FILES, timeout_s=60)).over_limit == "disk_mib"
    assert (await box.exec("sleep 1; rm big*; sleep 1")).ok
    assert (await box.exec("head -c 20000000 /dev/zero > small; sleep 1")).ok
    assert (await box.exec(_MANY_FILES, timeout_s=60)).over_limit == "disk_mib"
    await box.close()


async def test_files_without_a_name_count(provider: LocalProvider) -> None:
    box = await provider.create(SandboxSpec(limits=Limits(disk_mib=32)))
    script = 'for i in $(seq 3 9); do eval "exec $i>gone"; rm gone; head -c 10000000 /dev/zero >&$i; done; sleep 30'
    result = await box.exec(["/bin/bash", "-c", script], timeout_s=60)
    assert result.over_limit == "disk_mib"
    await box.close()


async def test_a_background_process_is_ended_too(provider: LocalProvider) -> None:
    box = await provider.create(SandboxSpec(limits=Limits(disk_mib=32)))
    started = await box.exec(f"(setsid sh -c '{_MANY_FILES.replace(chr(39), '')}' >/dev/null 2>&1 &)")
    assert started.ok
    result = await box.exec("sleep 30", timeout_s=60)
    assert result.over_limit == "disk_mib", "nobody knows who wrote it: all are ended"
    with anyio.fail_after(5):
        while await box.processes():
            await anyio.sleep(0.01)
    await box.close()


async def test_many_small_files_and_directories_count(provider: LocalProvider) -> None:
    box = await provider.create(SandboxSpec(limits=Limits(disk_mib=16)))
    result = await box.exec(
        "for i in $(seq 1 100); do mkdir d$i; touch d$i/$(seq -s ' d'$i/ 1 200); done; sleep 30", timeout_s=60
    )
    assert result.over_limit == "disk_mib"
    await box.close()


async def test_below_more_levels_than_can_be_looked_into_the_disk_itself_tells(provider: LocalProvider) -> None:
    box = await provider.create(SandboxSpec(limits=Limits(disk_mib=256, open_files=256)))
    script = (
        "import os, time\nfor _ in range(400):\n    os.mkdir('d'); os.chdir('d')\n"
        "for n in range(60):\n    open(str(n), 'wb').write(b'x' * 16_000_000)\ntime.sleep(30)"
    )
    result = await box.exec(["python3", "-c", script], timeout_s=60)
    assert result.over_limit == "disk_mib"
    await box.close()


async def test_the_limit_is_told_to_be_watched(provider: LocalProvider) -> None:
    health = await provider.probe()
    assert health.limits["disk_mib"] == "watched"
    assert set(health.limits) == set(Limits.model_fields)


async def test_one_file_cannot_be_larger_than_the_limit(provider: LocalProvider) -> None:
    box = await provider.create(SandboxSpec(limits=Limits(disk_mib=8)))
    await box.exec("head -c 20000000 /dev/zero > one; sleep 60", timeout_s=60)  # is ended: folders take room as well
    assert int((await box.exec("stat -c %s one", timeout_s=60)).stdout) <= 8 << 20
    await box.close()


async def test_moving_folders_about_is_no_crime(provider: LocalProvider) -> None:
    """A folder that moves while the layer is walked is counted twice: 36 MiB of 64 looked like too much."""
    box = await provider.create(SandboxSpec(limits=Limits(disk_mib=64)))
    program = (
        "import os, time\nos.mkdir('a'); os.mkdir('b'); os.mkdir('a/x')\n"
        "for n in range(3000): open(f'a/x/{n}', 'wb').write(b'y' * 12000)\n"
        "end = time.time() + 8\n"
        "while time.time() < end:\n"
        "    os.rename('a/x', 'b/x'); time.sleep(0.002); os.rename('b/x', 'a/x'); time.sleep(0.002)\n"
    )
    result = await box.exec(["python3", "-c", program], timeout_s=60)
    assert (result.ok, result.over_limit) == (True, None)
    await box.close()


async def test_our_own_upload_ends_no_program(provider: LocalProvider, tmp_path: Path) -> None:
    """The half of a file that did not fit stays, and the next innocent command is ended for it."""
    box = await provider.create(SandboxSpec(limits=Limits(disk_mib=16)))
    big = tmp_path / "big"
    big.write_bytes(b"x" * (40 << 20))
    with pytest.raises(TransferFailed):
        await box.upload(big, "/tmp/big")
    result = await box.exec("sleep 1; echo innocent")
    assert (result.stdout, result.over_limit) == ("innocent\n", None)
    await box.close()


async def test_a_tree_that_is_too_deep_can_be_removed(provider: LocalProvider) -> None:
    box = await provider.create(SandboxSpec(limits=Limits(disk_mib=512, open_files=256)))
    script = "import os, time\nfor _ in range(400):\n    os.mkdir('d'); os.chdir('d')\ntime.sleep(30)"
    assert (await box.exec(["python3", "-c", script.replace("30", "1")], timeout_s=60)).over_limit is None
    assert (await box.exec("sleep 1; rm -rf d; sleep 1; echo cleaned", timeout_s=60)).stdout == "cleaned\n"
    await box.close()
