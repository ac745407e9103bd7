"""What is particular to boxes that bubblewrap has made."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import CapabilityMissing, CreateFailed, InputError, NoSpace, ProviderUnavailable
from swe_sdk.sandbox.contract import Limits, SandboxSpec
from swe_sdk.sandbox.providers.local import bubblewrap
from swe_sdk.sandbox.providers.local.bubblewrap import BubblewrapZygote, explain_bubblewrap, find_bubblewrap
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.leaks import memory_folder, processes_of, traces_of
from tests.sandbox.boxes import create, init_of, ok

pytestmark = pytest.mark.anyio


async def test_health_names_the_engine_and_what_differs(bwrap: LocalProvider) -> None:
    health = await bwrap.probe()
    assert health.works, health
    assert health.details["engine"] == f"bwrap: {find_bubblewrap().path}, version {find_bubblewrap().version}"
    assert health.details["engine userns"] == "not asked for"
    assert "no root" in health.details["engine bwrap"]


async def test_what_waits_for_a_box_is_gone_with_its_provider(bwrap: LocalProvider) -> None:
    waiting = []
    for _ in range(10):
        box = await create(bwrap)
        waiting.append(Path("/proc", Path(f"/proc/{init_of(box)}/stat").read_text().rpartition(")")[2].split()[1]))
        os.kill(int(waiting[-1].name), signal.SIGSTOP)  # as slow as on the busiest machine
        await box.close()
    await bwrap.aclose()
    assert [path for path in waiting if path.exists()] == []


async def test_no_process_of_a_box_has_a_capability_or_is_root_here(bwrap: LocalProvider) -> None:
    box = await create(bwrap)
    await box.exec("sleep 60 > /dev/null 2>&1 &")
    init = init_of(box)
    pids = [init, *map(int, Path(f"/proc/{init}/task/{init}/children").read_text().split())]
    assert len(pids) == 2
    for pid in pids:
        lines = [line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
        facts = {line[0].rstrip(":"): line[1:] for line in lines if line}
        assert {int(facts[name][0], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")} == {0}
        assert (facts["Seccomp"], facts["NoNewPrivs"]) == (["2"], ["1"])
        assert "0" not in facts["Uid"]
        ours = set() if os.getuid() == 0 else set(map(str, os.getgroups()))  # a user cannot drop groups
        assert set(facts["Groups"]) <= ours
    await box.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="the setting of another namespace is root's to change")
async def test_segments_that_outlive_their_makers_are_bounded_in_the_box_alone(bwrap: LocalProvider) -> None:
    before = Path("/proc/sys/kernel/shmall").read_text()
    for _ in range(5):
        box = await create(bwrap, SandboxSpec(workdir="/tmp", limits=Limits(memory_mib=64)))
        assert int(await ok(box, "cat /proc/sys/kernel/shmall")) == (16 << 20) // os.sysconf("SC_PAGE_SIZE")
        await box.close()
    assert Path("/proc/sys/kernel/shmall").read_text() == before


async def test_layers_serve_both_engines(bwrap: LocalProvider, folder: Path) -> None:
    other = LocalProvider(folder, engine="userns")
    box = await create(bwrap)
    await ok(
        box, "echo first > /home/agent/a; rm -r /opt; mkdir -m 0 /tmp/closed; echo x > /tmp/shut; chmod 0 /tmp/shut"
    )
    first = await bwrap.snapshot(box)
    await box.close()
    box = await create(other, SandboxSpec(workdir="/tmp", snapshot=first.id))
    await ok(box, "echo second >> /home/agent/a; test ! -e /opt")
    second = await other.snapshot(box)
    await box.close()
    box = await create(bwrap, SandboxSpec(workdir="/tmp", snapshot=second.id))
    assert await ok(box, "cat /home/agent/a; stat -c %a /tmp/closed /tmp/shut") == "first\nsecond\n0\n0\n"
    assert await box.read("/tmp/shut") == b"x\n"
    await box.close()
    for snapshot in (first, second):
        await bwrap.delete_snapshot(snapshot.id)
    await other.aclose()


async def test_what_a_program_has_closed_is_read_and_is_closed_afterwards(bwrap: LocalProvider) -> None:
    box = await create(bwrap)
    await ok(box, "mkdir -p a/b; echo text > a/b/file; ln -s /tmp/a link; chmod 0 a/b/file a/b a")
    for path in ("a/b/file", "/tmp/a/b/file", "link/b/file", "link/../a/./b/file"):
        assert await box.read(path) == b"text\n", path
    await box.write("link/b/new/er/file", b"written", mode=0o600)
    assert await box.read("a/b/new/er/file") == b"written"
    seen = await ok(box, "stat -c %a a; chmod 700 a; stat -c %a a/b; chmod 700 a/b; stat -c %a a/b/file")
    assert seen == "0\n0\n0\n"
    await box.close()


async def test_a_paused_box_is_copied_with_what_is_closed_in_it(bwrap: LocalProvider) -> None:
    box = await create(bwrap)
    await ok(box, "mkdir -p a/b; echo text > a/b/file; setfattr -n user.x -v y a/b 2>/dev/null; chmod 0 a/b/file a/b a")
    await box.exec("sleep 60 > /dev/null 2>&1 &")
    await box.pause()
    snapshot = await bwrap.snapshot(box)
    await box.resume()
    assert await ok(box, "stat -c %a a") == "0\n"
    fork = await create(bwrap, SandboxSpec(workdir="/tmp", snapshot=snapshot.id))
    assert (
        await ok(fork, "stat -c %a a; chmod 700 a; stat -c %a a/b; chmod 700 a/b; stat -c %a a/b/file") == "0\n0\n0\n"
    )
    await box.close()
    await fork.close()
    await bwrap.delete_snapshot(snapshot.id)


async def test_what_is_written_into_closed_directories_counts(bwrap: LocalProvider) -> None:
    box = await create(bwrap, SandboxSpec(workdir="/tmp", limits=Limits(disk_mib=4)))
    await ok(box, "mkdir -p a/b; head -c 3000000 /dev/zero > a/b/c; chmod 0 a/b a; sleep 1; stat -c %a a")
    result = await box.exec("head -c 2000000 /dev/zero > more; sleep 25", timeout_s=20)
    assert result.over_limit == "disk_mib", result
    assert await ok(box, "stat -c %a a") == "0\n"
    await box.close()


async def test_chains_are_kept_short_enough(bwrap: LocalProvider) -> None:
    longest = bwrap.zygote.max_layers
    assert 20 < longest < 200
    box, snapshots = await create(bwrap), []
    for number in range(longest + 3):
        await ok(box, f"echo {number} > f{number}; echo {number} > last")
        snapshots.append(await bwrap.snapshot(box))
        assert len(box.chain) <= longest
    assert await ok(box, "ls f* | wc -l; cat last") == f"{longest + 3}\n{longest + 2}\n"
    await box.close()
    for snapshot in snapshots:
        await bwrap.delete_snapshot(snapshot.id)


async def test_a_chain_too_long_for_its_options_says_so(tmp_path: Path) -> None:
    zygote = BubblewrapZygote(tmp_path / "log", None, state=tmp_path, agent=None)
    spec = {"lowers": [f"layers/layer-{number:050}/diff" for number in range(80)], "upper": "u", "work": "w"}
    with pytest.raises(CreateFailed, match="80 layers is too long") as raised:
        zygote._require_room(spec)
    assert "SWE_SDK_STATE" in raised.value.remedy


async def test_images_are_another_providers(bwrap: LocalProvider) -> None:
    with pytest.raises(CapabilityMissing, match="unpacked") as raised:
        await bwrap.create(SandboxSpec(image="127.0.0.1:1/nothing:1"))
    assert "docker" in raised.value.remedy


async def test_a_mount_cannot_be_led_to_a_folder_of_this_machine(bwrap: LocalProvider, folder: Path) -> None:
    """bubblewrap itself would follow the link, and make the mount point, outside of the box."""
    with tempfile.TemporaryDirectory(dir=memory_folder()) as name:
        Path(name).chmod(0o777)
        (Path(name) / "shelf").mkdir()
        box = await create(bwrap)
        await ok(box, f"rmdir /opt; ln -s ../oldroot{name} /opt")
        snapshot = await bwrap.snapshot(box)
        await box.close()
        mount = {"source": f"{name}/shelf", "target": "/opt/made"}
        box = await create(bwrap, SandboxSpec.model_validate({"snapshot": snapshot.id, "mounts": [mount]}))
        assert os.listdir(name) == ["shelf"]
        assert await ok(box, f"ls -d /oldroot{name}/made") == f"/oldroot{name}/made\n"
        await box.close()
        await bwrap.delete_snapshot(snapshot.id)


async def test_a_dead_launcher_is_renewed(bwrap: LocalProvider) -> None:
    box = await create(bwrap)
    assert bwrap.zygote._process is not None
    bwrap.zygote._process.kill()
    bwrap.zygote._process.wait()
    with anyio.fail_after(10):
        while await box.status() != "lost":  # what it has started ends with it
            await anyio.sleep(0.01)
    again = await create(bwrap)
    assert await ok(again, "echo on") == "on\n"
    await box.close()
    await again.close()


def test_boxes_end_with_the_process_that_made_them(folder: Path) -> None:
    program = (
        "import anyio, sys\n"
        "from swe_sdk.sandbox.contract import SandboxSpec\n"
        "from swe_sdk.sandbox.providers.local.provider import LocalProvider\n"
        "async def main():\n"
        "    provider = LocalProvider(sys.argv[1], engine='bwrap')\n"
        "    boxes = [await provider.create(SandboxSpec()) for _ in range(3)]\n"
        "    await boxes[0].exec('setsid sleep 600 > /dev/null 2>&1 &')\n"
        "    print(provider.store.owner, flush=True)\n"
        "    await anyio.sleep(600)\n"
        "anyio.run(main)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, folder], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        owner = process.stdout.readline().strip()
        assert len(list(processes_of(owner))) >= 4
        process.send_signal(signal.SIGKILL)
    for _ in range(200):
        if not list(processes_of(owner)):
            break
        anyio.run(anyio.sleep, 0.05)
    assert list(processes_of(owner)) == []
    provider = LocalProvider(folder, engine="bwrap")
    assert provider.store.snapshots() == []
    anyio.run(provider.aclose)
    assert traces_of(folder) == {}


def test_an_engine_that_there_is_not() -> None:
    with pytest.raises(InputError, match="no engine 'landlock'") as raised:
        LocalProvider(engine="landlock")  # type: ignore[arg-type]
    assert "userns" in raised.value.remedy


def test_the_environment_names_the_engine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWE_SDK_LOCAL_ENGINE", "bwrap")
    provider = LocalProvider(folder)
    assert isinstance(provider._new_zygote(None), BubblewrapZygote)
    assert not isinstance(LocalProvider(folder, engine="userns")._new_zygote(None), BubblewrapZygote)


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> bubblewrap.Bubblewrap | None:
    """No program is known from before, and that of the Python package is not there."""
    find_bubblewrap.cache_clear()
    monkeypatch.setattr(bubblewrap, "_bundled", lambda: None)
    return None


@pytest.mark.usefixtures("only")
def test_one_that_is_too_old_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "bwrap"
    old.write_text("#!/bin/sh\necho bubblewrap 0.8.0\n")
    old.chmod(0o755)
    monkeypatch.setenv("SWE_SDK_BWRAP", str(old))
    with pytest.raises(ProviderUnavailable, match=r"bwrap is version 0\.8\.0") as raised:
        find_bubblewrap()
    assert "0.11" in raised.value.remedy
    old.write_text("#!/bin/sh\necho bubblewrap 0.13.1\n")
    assert find_bubblewrap() == bubblewrap.Bubblewrap(str(old), "0.13.1")
    find_bubblewrap.cache_clear()


@pytest.mark.usefixtures("only")
def test_none_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWE_SDK_BWRAP", "/nowhere/bwrap")
    with pytest.raises(ProviderUnavailable, match="none is installed"):
        find_bubblewrap()
    find_bubblewrap.cache_clear()


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("bwrap: No permissions to create a new namespace, likely because the kernel does not", ProviderUnavailable),
        ("bwrap: setting up uid map: Permission denied", ProviderUnavailable),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", ProviderUnavailable),
        (
            "bwrap: Can't make overlay mount on /newroot/ with options lowerdir=...: Invalid argument",
            ProviderUnavailable,
        ),
        ("bwrap: Can't mkdir /x: No space left on device", NoSpace),
        ("bwrap: Can't find source path /nowhere: No such file or directory", CreateFailed),
    ],
)
def test_what_bubblewrap_says_becomes_a_typed_error(said: str, kind: type[Exception]) -> None:
    assert type(explain_bubblewrap(said)) is kind


async def test_what_cannot_be_mounted_is_an_error_that_names_it(bwrap: LocalProvider) -> None:
    spec = SandboxSpec.model_validate({"mounts": [{"source": "/nowhere/at/all", "target": "/mnt/x"}]})
    with pytest.raises(CreateFailed, match="/nowhere/at/all"):
        await bwrap.create(spec)
    assert bwrap.boxes == {}


async def test_the_carried_interpreter_is_in_no_layer(bwrap: LocalProvider) -> None:
    box = await create(bwrap)
    left = [path for path in (box.path / "top/diff").rglob("*") if not stat.S_ISDIR(path.lstat().st_mode)]
    assert left == []
    assert not (box.path / "top/diff/dev").exists()
    assert (await box.exec("touch /dev/swe_sdk/runtime/x /dev/x /proc/1/x")).exit_code == 1
    await box.close()
