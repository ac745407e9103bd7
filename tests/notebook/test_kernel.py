"""Both faces in a real Jupyter kernel: they work, the stop button reaches them, and nothing is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.leaks import memory_folder, processes_of, traces_of
from tests.notebook.kernel import Cell, Kernel

pytestmark = pytest.mark.timeout(180)

IMPORTS = "import swe_sdk as swe; from swe_sdk import aio; import asyncio, time"
STOP_CAP_S = 3.0
SLEEPS = {
    "blocking": "with swe.Sandbox() as box:\n    print('in', flush=True); box.exec('setsid sleep 600 & sleep 600')",
    "awaited": "async with aio.Sandbox() as box:\n"
    "    print('in', flush=True); await box.exec('setsid sleep 600 & sleep 600')",
    "two at a time": "import anyio\nasync with aio.Sandbox() as one, aio.Sandbox() as two:\n"
    "    async with anyio.create_task_group() as group:\n        print('in', flush=True)\n"
    "        group.start_soon(one.exec, 'sleep 600'); group.start_soon(two.exec, 'sleep 600')",
}


@pytest.fixture(scope="module")
def private_state(local_provider: LocalProvider) -> Iterator[Path]:
    """A state directory that only kernels of this module use; local sandboxes work here."""
    folder = Path(tempfile.mkdtemp(prefix="swe_sdk-kernel-", dir=memory_folder()))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def kernel(private_state: Path) -> Iterator[Kernel]:
    places = Path(tempfile.mkdtemp(prefix="k-", dir="/tmp"))  # sockets have short paths
    kernel = Kernel(private_state, places)
    try:
        kernel.good(IMPORTS)
        yield kernel
    finally:
        kernel.close()
        shutil.rmtree(places, ignore_errors=True)
    assert traces_of(private_state) == {}


def stopped(kernel: Kernel, code: str, is_ready: Callable[[], bool] = lambda: True) -> tuple[Cell, float]:
    """Press the stop button half a second after a cell has said that it is in, and what it does is under way."""
    cell = kernel.start(code)
    kernel.wait_for(cell, "in")
    deadline = time.monotonic() + 60
    while not is_ready():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)
    pressed = time.monotonic()
    kernel.interrupt()
    found = kernel.finish(cell, 30)
    return found, time.monotonic() - pressed


def test_both_faces_work_in_one_kernel(kernel: Kernel) -> None:
    assert kernel.good("with swe.Sandbox() as box: print(box.exec('echo one').stdout, end='')") == "one\n"
    awaited = "async with aio.Sandbox() as box: print((await box.exec('echo two')).stdout, end='')"
    assert kernel.good(awaited) == "two\n"
    mixed = "async with aio.Sandbox() as box:\n    with swe.Sandbox() as other:\n"
    mixed += "        print((await box.exec('echo a')).stdout + other.exec('echo b').stdout)"
    assert kernel.good(mixed) == "a\nb\n\n"


def test_threads_of_a_kernel_may_block_at_once(kernel: Kernel) -> None:
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with swe.Sandbox() as box, ThreadPoolExecutor(4) as pool:\n"
        "    print(*pool.map(lambda n: box.exec(f'sleep 0.2; echo {n}').stdout.strip(), range(4)))"
    )
    assert kernel.good(code) == "0 1 2 3\n"


@pytest.mark.parametrize("way", SLEEPS)
def test_the_stop_button_cancels_and_closes(kernel: Kernel, private_state: Path, way: str) -> None:
    cell, seconds = stopped(kernel, SLEEPS[way])
    assert cell.error in ("KeyboardInterrupt", "CancelledError"), cell.traceback
    assert seconds <= STOP_CAP_S
    assert traces_of(private_state).get("boxes", []) == []
    assert not [what for _pid, what in processes_of(str(private_state)) if "sleep 600" in what]
    assert kernel.good("with swe.Sandbox() as box: print(box.exec('echo usable').stdout, end='')") == "usable\n"
    assert kernel.good("async with aio.Sandbox() as box: print((await box.exec('echo too')).stdout)") == "too\n\n"


@pytest.mark.parametrize("call", ["swe.grade", "await aio.grade"])
def test_the_stop_button_ends_a_grade(kernel: Kernel, private_state: Path, call: str, tmp_path: Path) -> None:
    code = f"""
from tests.grading.tiny import make_task
from pathlib import Path
task = make_task(Path({str(tmp_path / "repo")!r}), test_command="sleep 600")
print("in", flush=True)
{call}(task, "")
"""
    cell, seconds = stopped(kernel, code)
    assert cell.error in ("KeyboardInterrupt", "CancelledError"), cell.traceback
    assert seconds <= STOP_CAP_S
    assert traces_of(private_state).get("boxes", []) == []


@pytest.mark.parametrize(("start", "resume"), [("swe.run", "swe.resume"), ("await aio.run", "await aio.resume")])
def test_a_run_that_was_stopped_goes_on(
    kernel: Kernel, private_state: Path, start: str, resume: str, tmp_path: Path
) -> None:
    code = f"""
from pathlib import Path
from swe_sdk.agents.scripted import Exec, Wait
from tests.grading.tiny import make_task
task = make_task(Path({str(tmp_path / "repo")!r}))
agent = swe.agents.ScriptedAgent(actions=(Exec(command="sed -i s/41/42/ src.txt"), Wait(seconds=3)))
print("in", flush=True)
{start}(task, agent, path={str(tmp_path / "run")!r})
"""
    events = tmp_path / "run" / "events"
    cell, seconds = stopped(kernel, code, lambda: any('"step"' in each.read_text() for each in events.glob("*.jsonl")))
    assert cell.error in ("KeyboardInterrupt", "CancelledError"), cell.traceback
    assert seconds <= STOP_CAP_S
    assert traces_of(private_state).get("boxes", []) == []
    assert kernel.good(f"print(({resume}({str(tmp_path / 'run')!r})).summary.splitlines()[0])").startswith("1 resolved")


def test_a_sandbox_that_outlives_its_cell_survives_the_stop_button(kernel: Kernel) -> None:
    kernel.good("kept = swe.Sandbox().start(); kept.write_text('/tmp/x', 'still here')")
    cell, seconds = stopped(kernel, "print('in', flush=True); kept.exec('sleep 600')")
    assert (cell.error, seconds <= STOP_CAP_S) == ("KeyboardInterrupt", True)
    assert kernel.good("print(kept.read_text('/tmp/x')); kept.close()") == "still here\n"


def test_objects_show_themselves(kernel: Kernel) -> None:
    kernel.good("box = swe.Sandbox().start()")
    (shown,) = kernel.run("box").data
    assert '<div class="swe">' in shown["text/html"]
    assert shown["text/plain"].startswith("<Sandbox box-")
    (result,) = kernel.run("box.exec('echo \"<b>\"; exit 3')").data
    assert "exited with code 3" in result["text/html"]
    assert "&lt;b&gt;" in result["text/html"]
    kernel.good("box.close()")


def test_progress_is_one_picture_in_the_cell_that_called(kernel: Kernel, tmp_path: Path) -> None:
    """For a blocking call, whose work is done by another thread, and for an awaited one."""
    make = f"""
from tests.grading.tiny import GOLD, make_task
task = make_task(Path({str(tmp_path / "repo")!r}))
tasks = [task.model_copy(update={{"instance_id": f"tiny__{{n}}"}}) for n in range(5)]
patches = {{each.instance_id: GOLD for each in tasks}}
"""
    kernel.good("from pathlib import Path" + make)
    for call in ("outcomes = swe.grade_many(tasks, patches)", "outcomes = await aio.grade_many(tasks, patches)"):
        cell = kernel.run(call)
        assert not cell.error, cell.traceback
        (shown,) = cell.data
        assert "5 of 5 patches" in shown["text/html"]
        assert shown["text/plain"].startswith("5/5 patches, 5 resolved, 0 unresolved, 0 masked")
        assert cell.streams == {"stdout": "", "stderr": ""}
        assert 1 <= cell.updates <= 40
    (table,) = kernel.run("outcomes").data
    assert "5 resolved" in table["text/plain"]
    assert kernel.run("swe.grade_many(tasks, patches, progress=False); None").data == []


@pytest.mark.parametrize(
    ("way", "made", "code"),
    [
        ("blocking", "environment", "with swe.Sandbox(task) as box: pass"),
        ("awaited", "environment", "async with aio.Sandbox(task) as box: pass"),
        ("graded", "grade", "swe.grade(task, ''); None"),
    ],
)
def test_a_first_build_shows_its_steps(kernel: Kernel, way: str, made: str, code: str, tmp_path: Path) -> None:
    kernel.good(f"""
from pathlib import Path
from tests.grading.tiny import make_task
task = make_task(Path({str(tmp_path / "repo")!r}))
environment = task.environment.model_copy(update={{"install": ("sleep 1 # {way}",)}})
task = task.model_copy(update={{"environment": environment}})
""")
    (shown,) = kernel.run(code).data
    assert shown["text/plain"].startswith(f"{made}: took ")
    assert kernel.run(code).data == [], "it is there already"


def test_a_graceful_restart_leaves_nothing(kernel: Kernel, private_state: Path) -> None:
    kernel.good("box = swe.Sandbox().start(); other = await aio.Sandbox().start()")
    assert traces_of(private_state)["boxes"]
    kernel.restart()
    kernel.good(IMPORTS)
    assert traces_of(private_state).get("boxes", []) == []
    assert kernel.good("with swe.Sandbox() as box: print(box.exec('echo on').stdout, end='')") == "on\n"


def test_what_a_killed_kernel_leaves_is_reaped(kernel: Kernel, private_state: Path) -> None:
    kernel.good("box = swe.Sandbox().start(); background = box.exec('sleep 600 > /dev/null 2>&1 &')")
    os.kill(kernel.pid, signal.SIGKILL)
    kernel.restart(now=True)
    kernel.good(IMPORTS)
    assert traces_of(private_state)["boxes"]
    started = time.monotonic()
    reap = "import subprocess, sys; print(subprocess.run([sys.executable, '-m', 'swe_sdk', 'reap']).returncode)"
    assert kernel.good(reap) == "0\n"
    assert time.monotonic() - started < 5
    assert {"boxes", "processes", "mounts"} & traces_of(private_state).keys() == set()
