"""Whoever dies or ends, at whatever moment: nothing is left behind, and nobody else is hurt."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from anyio.abc import TaskStatus

from swe_sdk.errors import SandboxClosed, SandboxError, SandboxLost
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.providers.local.box import LocalBox
from swe_sdk.sandbox.providers.local.engines import AutoZygote
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.leaks import processes_of, traces_of
from tests.sandbox.boxes import create, init_of, ok

pytestmark = pytest.mark.anyio


async def long_command(box: LocalBox, results: list[ExecResult], *, task_status: TaskStatus[None]) -> None:
    """A command that does not end by itself; started once it has printed something."""
    results.append(await box.exec("echo began; sleep 600", on_output=lambda _stream, _data: task_status.started()))


async def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    with anyio.fail_after(seconds):
        while not condition():
            await anyio.sleep(0.01)


async def test_boxes_die_with_the_process_that_made_them_and_the_next_one_lives(provider: LocalProvider) -> None:
    boxes = [await create(provider) for _ in range(3)]
    await ok(boxes[0], "setsid sleep 600 >/dev/null 2>&1 &")
    results: list[ExecResult] = []

    async with anyio.create_task_group() as tasks:
        await tasks.start(long_command, boxes[1], results)
        zygote = provider.zygote.chosen if isinstance(provider.zygote, AutoZygote) else provider.zygote
        assert zygote is not None
        assert zygote._process is not None
        os.kill(zygote._process.pid, signal.SIGKILL)
    assert [(result.status, result.exit_code) for result in results] == [("lost", None)]
    assert results[0].stdout == "began\n", "what it had printed is kept"
    assert await boxes[1].status() == "lost"
    for box in boxes:
        with anyio.fail_after(5):
            while await box.status() != "lost":
                await anyio.sleep(0.01)
        for call in (lambda box=box: box.exec("true"), lambda box=box: box.read("/etc/passwd"), box.processes):
            with pytest.raises(SandboxLost, match=box.id):
                await call()
    fresh = await create(provider)
    assert await ok(fresh, "echo lives") == "lives\n"
    for box in (*boxes, fresh):
        await box.close()
        assert await box.status() == "stopped"
        assert not box.path.exists()


async def test_a_box_killed_from_outside_is_lost_and_can_be_closed(provider: LocalProvider) -> None:
    victim, other = await create(provider), await create(provider)
    await ok(victim, "setsid sleep 600 >/dev/null 2>&1 &")
    results: list[ExecResult] = []

    async with anyio.create_task_group() as tasks:
        await tasks.start(long_command, victim, results)
        os.kill(init_of(victim), signal.SIGKILL)
    assert results[0].status == "lost"
    assert await victim.status() == "lost"
    with pytest.raises(SandboxLost):
        await victim.exec("true")
    with pytest.raises(SandboxLost):
        await victim.write("x", b"")
    with pytest.raises(SandboxError):
        await provider.snapshot(victim)
    assert await ok(other, "echo fine") == "fine\n"
    for box in (victim, other):
        await box.close()
        await box.close()
        assert not box.path.exists()
    with pytest.raises(SandboxClosed):
        await victim.exec("true")


async def test_a_box_whose_directory_was_deleted_can_be_closed(provider: LocalProvider) -> None:
    box = await create(provider)
    shutil.rmtree(box.path, ignore_errors=True)
    await box.close()
    assert box.id not in provider.boxes


async def test_a_provider_can_be_used_again_after_it_was_closed(provider: LocalProvider) -> None:
    box = await create(provider)
    await provider.aclose()
    assert await box.status() == "stopped"
    with pytest.raises(SandboxClosed):
        await box.exec("true")
    again = await create(provider)
    assert await ok(again, "echo again") == "again\n"
    await again.close()
    owner = provider.store.owner
    await provider.aclose()
    await provider.aclose()
    assert not (provider.state / "owners" / f"{owner}.lock").exists()


# -- processes around it ----------------------------------------------------------------------------------------------


@pytest.fixture
def script(tmp_path: Path, local_provider: LocalProvider) -> Callable[..., subprocess.Popen[str]]:
    """Starts a program of its own process, with ``state`` and ``say`` (a line of JSON) at hand."""

    def start(body: str, *, state: Path | None = None) -> subprocess.Popen[str]:
        file = tmp_path / "program.py"
        file.write_text(
            "import anyio, json, os, signal, sys, time\n"
            "import swe_sdk as swe\n"
            "from swe_sdk.sandbox.contract import SandboxSpec\n"
            "from swe_sdk.sandbox.providers.local.provider import LocalProvider\n"
            "def say(**facts): print(json.dumps(facts), flush=True)\n"
            "state = sys.argv[1]\n" + textwrap.dedent(body)
        )
        command = [sys.executable, "-W", "error", str(file), str(state or local_provider.state)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


Script = Callable[..., subprocess.Popen[str]]


def heard(child: subprocess.Popen[str]) -> dict[str, object]:
    """The next line of JSON that a program says."""
    assert child.stdout is not None
    line = child.stdout.readline()
    assert line, child.communicate()[1]
    return json.loads(line)  # type: ignore[no-any-return]


async def test_a_killed_process_leaves_nothing_that_the_next_does_not_remove(
    local_provider: LocalProvider, script: Script
) -> None:
    bystander = await create(local_provider)
    await ok(bystander, "setsid sleep 600 >/dev/null 2>&1 & echo kept > /tmp/kept")
    child = script("""
        async def main():
            provider = LocalProvider(state)
            boxes = [await provider.create(SandboxSpec(workdir="/tmp")) for _ in range(3)]
            for box in boxes:
                await box.exec("echo x > file; setsid sleep 600 >/dev/null 2>&1 & (sleep 600 &) >/dev/null 2>&1")
            say(owner=provider.store.owner)
            await boxes[0].exec("while :; do :; done")
        anyio.run(main)
    """)
    owner = str(heard(child)["owner"])
    assert len(list(processes_of(owner))) >= 9
    child.kill()
    child.communicate()
    await wait_until(lambda: not list(processes_of(owner)), 5)
    assert len(list((local_provider.state / "boxes" / owner).iterdir())) == 3
    next_one = LocalProvider(local_provider.state)
    box = await create(next_one)
    assert not (local_provider.state / "boxes" / owner).exists()
    assert not (local_provider.state / "owners" / f"{owner}.lock").exists()
    assert await ok(bystander, "cat /tmp/kept") == "kept\n"
    assert [process.command for process in await bystander.processes()] == ["sleep 600"]
    await box.close()
    await next_one.aclose()
    await bystander.close()


async def test_a_process_that_just_ends_leaves_nothing(local_provider: LocalProvider, script: Script) -> None:
    child = script("""
        async def main():
            provider = LocalProvider(state)
            boxes = [await provider.create(SandboxSpec(workdir="/tmp")) for _ in range(3)]
            busy = "setsid bash -c 'while :; do mkdir -p d/$RANDOM/x; echo > d/$RANDOM; done' >/dev/null 2>&1 &"
            for box in boxes:
                await box.exec(busy)
            say(owner=provider.store.owner)
        anyio.run(main)
    """)
    owner = str(heard(child)["owner"])
    _out, errors = child.communicate(timeout=30)
    assert (child.returncode, errors) == (0, "")
    await wait_until(lambda: not list(processes_of(owner)), 5)
    traces = traces_of(local_provider.state, owner)
    assert not [each for what in traces.values() for each in what if owner in each]


@pytest.mark.parametrize("last", ["", "threading.Thread(target=box.exec, args=('sleep 600',), daemon=True).start()"])
async def test_a_script_that_forgets_to_close_ends_at_once_and_leaves_nothing(
    local_provider: LocalProvider, script: Script, last: str
) -> None:
    child = script(f"""
        import threading
        provider = LocalProvider(state)
        box, other = swe.Sandbox(provider=provider).start(), swe.Sandbox(provider=provider).start()
        other.exec("setsid sleep 600 >/dev/null 2>&1 &")
        threading.excepthook = lambda arguments: None
        {last}
        time.sleep(0.2)
        say(owner=provider.store.owner)
    """)
    owner = str(heard(child)["owner"])
    _out, errors = child.communicate(timeout=20)
    assert (child.returncode, errors) == (0, "")
    assert list(processes_of(owner)) == []
    assert not (local_provider.state / "boxes" / owner).exists()


async def test_a_forked_child_has_nothing_to_do_with_its_parents_boxes(
    local_provider: LocalProvider, script: Script
) -> None:
    child = script("""
        import socket
        provider = LocalProvider(state)
        with swe.Sandbox(provider=provider) as box:
            box.exec("echo parent > /tmp/whose")
            mine = box.box
            pid = os.fork()
            if pid == 0:
                # leaving the `with` here, by this exit, must not close the parent's box
                facts = {"status": "?"}
                try:
                    box.exec("echo child > /tmp/whose")
                except swe.errors.SandboxError as error:
                    facts["error"] = type(error).__name__
                facts["boxes"] = len(provider.boxes)
                with swe.Sandbox(provider=provider) as own:
                    facts["own"] = own.exec("echo own").stdout
                with swe.Sandbox(provider=LocalProvider(state)) as own:
                    facts["other"] = own.exec("echo other").stdout
                say(**facts)
                sys.exit(0)
            _pid, status = os.waitpid(pid, 0)
            say(status=status, whose=box.exec("cat /tmp/whose").stdout, alive=box.status())
        say(closed=box.status(), left=len(provider.boxes))
    """)
    assert heard(child) == {
        "status": "?", "error": "SandboxClosed", "boxes": 0, "own": "own\n", "other": "other\n",
    }  # fmt: skip
    assert heard(child) == {"status": 0, "whose": "parent\n", "alive": "running"}
    assert heard(child) == {"closed": "stopped", "left": 0}
    _out, errors = child.communicate(timeout=30)
    assert (child.returncode, errors) == (0, "")


async def test_a_forked_child_that_lives_on_keeps_no_box_alive(local_provider: LocalProvider, script: Script) -> None:
    child = script("""
        async def main():
            provider = LocalProvider(state)
            box = await provider.create(SandboxSpec(workdir="/tmp"))
            await box.exec("setsid sleep 600 >/dev/null 2>&1 &")
            pid = os.fork()
            if pid == 0:
                os.close(1); os.close(2)
                time.sleep(30)
                os._exit(0)
            say(owner=provider.store.owner, child=pid)
            time.sleep(60)
        anyio.run(main)
    """)
    said = heard(child)
    child.kill()
    child.communicate()
    try:
        os.kill(int(str(said["child"])), 0)
        await wait_until(lambda: not list(processes_of(str(said["owner"]))), 5)
        sweeper = LocalProvider(local_provider.state)
        assert sweeper.store
        assert not (local_provider.state / "owners" / f"{said['owner']}.lock").exists(), "nor the owner's lock"
        await sweeper.aclose()
    finally:
        os.kill(int(str(said["child"])), signal.SIGKILL)


async def test_spawned_processes_make_boxes_of_their_own(script: Script) -> None:
    child = script("""
        import multiprocessing

        def work(state, number):
            with swe.Sandbox(provider=LocalProvider(state)) as box:
                return int(box.exec(f"echo {number}").stdout)

        if __name__ == "__main__":
            with swe.Sandbox(provider=LocalProvider(state)) as box:
                for method in ("spawn", "fork"):
                    with multiprocessing.get_context(method).Pool(2) as pool:
                        say(found=pool.starmap(work, [(state, n) for n in range(4)]))
                        pool.close()
                        pool.join()
                assert box.exec("echo fine").stdout == "fine\\n"
    """)
    assert heard(child) == {"found": [0, 1, 2, 3]}
    assert heard(child) == {"found": [0, 1, 2, 3]}
    _out, errors = child.communicate(timeout=30)
    assert (child.returncode, errors) == (0, "")


@pytest.mark.parametrize("where", ["a command", "a build", "asleep between commands"])
async def test_an_interrupt_closes_what_is_open(
    local_provider: LocalProvider, script: Script, tmp_path: Path, where: str
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_text(where)
    body = {
        "a command": """
            with swe.Sandbox(provider=provider) as box:
                say(owner=provider.store.owner)
                box.exec("setsid sleep 600 & sleep 600")
        """,
        "a build": f"""
            source = swe.DirectorySource(path={str(tmp_path / "source")!r})
            environment = swe.SourceEnvironment(source=source, install=("sleep 600",))
            def tell(text):
                if "install" in text:
                    say(owner=provider.store.owner)
            with swe.Sandbox(environment, provider=provider, on_progress=tell) as box:
                pass
        """,
        "asleep between commands": """
            with swe.Sandbox(provider=provider) as box:
                say(owner=provider.store.owner)
                time.sleep(60)
        """,
    }[where]
    child = script("provider = LocalProvider(state)\n" + textwrap.dedent(body))
    owner = str(heard(child)["owner"])
    await anyio.sleep(0.2)
    child.send_signal(signal.SIGINT)
    _out, errors = await to_thread.run_sync(lambda: child.communicate(timeout=20))
    assert child.returncode == -signal.SIGINT
    assert errors.strip().endswith("KeyboardInterrupt")
    assert list(processes_of(owner)) == []
    assert not (local_provider.state / "boxes" / owner).exists()
    assert not (local_provider.state / "owners" / f"{owner}.lock").exists()
