"""What users import: its names, its weight, and that it works from scripts, notebooks, threads and coroutines alike."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import signal
import subprocess
import sys
import threading
import time
import tomllib
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import swe_sdk as swe
from swe_sdk import aio, errors
from swe_sdk._loop import blocking
from swe_sdk.errors import CapabilityMissing, SandboxClosed
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.leaks import unused_layers

HEAVY = {"pandas", "matplotlib", "panel", "docker", "ray", "rich", "tqdm", "spython", "packaging", "uv"}
PACKAGE = Path(swe.__file__).parent


def fresh(program: str) -> str:
    """What a program prints in a new interpreter, which must not warn."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


# -- names ------------------------------------------------------------------------------------------------------------


def isort_order(name: str) -> tuple[int, str]:
    """CONSTANTS, then Classes, then functions and modules."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


@pytest.mark.parametrize("module", [swe, aio])
def test_all_is_sorted_and_has_no_repeats(module: object) -> None:
    names = module.__all__  # type: ignore[attr-defined]
    assert list(names) == sorted(set(names), key=isort_order)


def test_all_is_what_resolves_and_what_type_checkers_see() -> None:
    assert {*swe._HOMES, *swe._MODULES} == set(swe.__all__)
    for name in swe.__all__:
        assert getattr(swe, name) is not None
    assert set(swe.__all__) <= set(dir(swe))
    seen = {}
    for node in ast.walk(ast.parse((PACKAGE / "__init__.py").read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("swe_sdk"):
            seen |= {alias.name: node.module for alias in node.names}
    homes = {name: f"swe_sdk.{home}" for name, home in swe._HOMES.items()}
    assert seen == {**homes, **dict.fromkeys(swe._MODULES, "swe_sdk")}


def test_a_star_import_gives_all() -> None:
    assert json.loads(fresh("import json; from swe_sdk import *; print(json.dumps(sorted(globals())))")) == sorted(
        {*swe.__all__, *("__annotations__", "__builtins__", "__doc__", "__loader__", "__name__", "__package__"), "json"}
        | {"__spec__"}
    )


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        swe.no_such_name  # noqa: B018
    assert not hasattr(swe, "_face_")


def test_a_misspelt_name_is_corrected() -> None:
    with pytest.raises(AttributeError, match="did you mean grade"):
        swe.gradee  # noqa: B018


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
    assert swe.__version__ == project["version"]


def test_every_public_name_has_a_docstring() -> None:
    plain = {"DEFAULT_POLICY"}
    assert [name for name in swe.__all__ if name not in plain and not inspect.getdoc(getattr(swe, name))] == []


# -- weight -----------------------------------------------------------------------------------------------------------


def test_importing_is_quick() -> None:
    program = "import time; start = time.perf_counter(); import swe_sdk; print(time.perf_counter() - start)"
    assert min(float(fresh(program)) for _ in range(5)) <= 0.25


@pytest.mark.parametrize(
    "use", ["pass", "swe_sdk.Task, swe_sdk.Sandbox, swe_sdk.Policy", "swe_sdk.load_tasks, swe_sdk.grade"]
)
def test_importing_brings_nothing_heavy(use: str) -> None:
    loaded = json.loads(fresh(f"import json, sys, swe_sdk; {use}; print(json.dumps(sorted(sys.modules)))"))
    assert not HEAVY & set(loaded)


def test_importing_starts_nothing() -> None:
    program = "import swe_sdk, os; swe_sdk.Sandbox; swe_sdk.grade; print(len(os.listdir('/proc/self/task')))"
    assert fresh(program) == "1\n"


def test_lower_rooms_import_no_higher_ones() -> None:
    """model < sandbox < recipes, grading < store < face; within functions too."""
    floors = dict.fromkeys(("model", "errors", "paths", "files", "shown"), 0)
    floors |= {"progress": 0, "sandbox": 1, "recipes": 2, "grading": 2, "store": 3}
    wrong = []
    for file in PACKAGE.rglob("*.py"):
        room = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(file.read_text())):
            modules = [node.module] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for module in modules:
                target = (module or "").removeprefix("swe_sdk.").split(".")[0]
                if (module or "").startswith("swe_sdk.") and floors.get(target, 9) > floors.get(room, 9):
                    wrong.append(f"{file.relative_to(PACKAGE)} imports {module}")
    assert wrong == []


# -- twins ------------------------------------------------------------------------------------------------------------


def public(kind: type) -> dict[str, object]:
    found = {name: each for base in reversed(kind.__mro__) for name, each in vars(base).items()}
    return {name: each for name, each in found.items() if not name.startswith("_")}


def test_both_faces_have_the_same_names() -> None:
    assert set(aio.__all__) == set(swe.__all__) - {"aio"}
    assert set(aio.__all__) <= set(dir(aio))
    with pytest.raises(AttributeError, match="no_such_name"):
        aio.no_such_name  # noqa: B018


def test_the_blocking_sandbox_has_the_methods_of_the_async_one() -> None:
    assert set(public(swe.Sandbox)) == set(public(aio.Sandbox))
    assert inspect.signature(swe.Sandbox) == inspect.signature(aio.Sandbox)
    assert swe.Sandbox.__doc__ == (aio.Sandbox.__doc__ or "").replace("async with", "with")
    for name, method in public(aio.Sandbox).items():
        twin = inspect.getattr_static(swe.Sandbox, name)
        assert isinstance(twin, property) == isinstance(method, property), name
        if not isinstance(method, property):
            assert inspect.signature(getattr(swe.Sandbox, name)) == inspect.signature(method), name  # type: ignore[arg-type]
        assert inspect.getdoc(getattr(swe.Sandbox, name)) == inspect.getdoc(getattr(aio.Sandbox, name)), name


def test_methods_of_an_object_show_their_signature_too() -> None:
    """As a notebook does it, for ``box.exec?`` and while one types."""
    blocking, asynchronous = swe.Sandbox(), aio.Sandbox()
    for name, method in public(aio.Sandbox).items():
        if not isinstance(method, property):
            shown = inspect.signature(getattr(blocking, name))
            assert shown == inspect.signature(getattr(asynchronous, name)), name
            assert getattr(blocking, name).__doc__


@pytest.mark.parametrize("name", sorted(set(aio.__all__) - {"Sandbox"}))
def test_a_name_means_the_same_in_both(name: str) -> None:
    """A coroutine function has a blocking twin; anything else is one object."""
    blocking, asynchronous = getattr(swe, name), getattr(aio, name)
    if not inspect.iscoroutinefunction(asynchronous):
        assert blocking is asynchronous
        return
    assert inspect.signature(blocking) == inspect.signature(asynchronous)
    assert blocking.__doc__ == asynchronous.__doc__
    assert blocking.__name__ == name
    assert not inspect.iscoroutinefunction(blocking)


def test_every_call_of_aio_is_one_that_a_stop_button_reaches() -> None:
    functions = [getattr(aio, name) for name in aio.__all__]
    methods = [method for name, method in public(aio.Sandbox).items()]
    for each in (*functions, *methods):
        if inspect.iscoroutinefunction(each):
            assert each.__code__ is aio.grade.__code__, f"{each.__name__} is not wakeful"


# -- life -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def box(local_provider: LocalProvider) -> Iterator[swe.Sandbox]:
    with swe.Sandbox(provider=local_provider) as box:
        yield box


def test_a_sandbox_from_a_script(box: swe.Sandbox, tmp_path: Path) -> None:
    assert box.exec("cat; pwd", stdin="über\n").stdout == f"über\n{box.workdir}\n"
    box.write_text("pkg/x.txt", "text é", encoding="latin-1")
    assert box.read_bytes("pkg/x.txt") == b"text \xe9"
    assert box.read_text("pkg/x.txt") == "text \ufffd"
    assert box.read_text("pkg/x.txt", encoding="latin-1") == "text é"
    box.write_bytes("run", b"#!/bin/sh\necho ran\n", mode=0o755)
    assert box.exec("./run").check().stdout == "ran\n"
    (tmp_path / "up").write_bytes(b"\0\xff")
    box.upload(str(tmp_path / "up"), "up")
    box.download("up", tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == b"\0\xff"
    pieces: list[tuple[str, bytes]] = []
    box.exec("echo out; echo err >&2", on_output=lambda stream, data: pieces.append((stream, data)))
    assert sorted(pieces) == [("stderr", b"err\n"), ("stdout", b"out\n")]
    box.exec("sleep 60 > /dev/null 2>&1 & sleep 0.2")
    assert [process.command for process in box.processes()] == ["sleep 60"]
    box.pause()
    assert box.status() == "paused"
    box.resume()
    port, listener = box.listen()
    with listener:
        assert port == listener.getsockname()[1]
    assert box.id in repr(box)
    assert box.provider == "local"


def test_a_fork_goes_its_own_way_and_leaves_nothing(local_provider: LocalProvider) -> None:
    before = {path.name for path in (local_provider.state / "snapshots").iterdir()}
    with swe.Sandbox(provider=local_provider, env={"NAME": "kept"}) as box:
        box.write_text("/tmp/file", "first")
        with box.fork() as twin:
            twin.write_text("/tmp/file", "second")
            assert twin.exec("echo $NAME").stdout == "kept\n"
            with twin.fork() as third:
                assert third.read_text("/tmp/file") == "second"
            assert box.read_text("/tmp/file") == "first"
            box.close()
            assert twin.read_text("/tmp/file") == "second"
    assert {path.name for path in (local_provider.state / "snapshots").iterdir()} == before
    assert unused_layers(local_provider.state) == []


def test_a_snapshot_can_be_opened_again(local_provider: LocalProvider) -> None:
    with swe.Sandbox(provider=local_provider) as box:
        box.write_text("/tmp/file", "kept")
        snapshot = box.snapshot()
    for reference in (snapshot, snapshot.id):
        with swe.Sandbox(provider=local_provider, snapshot=reference) as box:
            assert box.read_text("/tmp/file") == "kept"
    asyncio.run(local_provider.delete_snapshot(snapshot.id))


def test_life_in_coroutines(local_provider: LocalProvider) -> None:
    async def main() -> None:
        async with aio.Sandbox(provider=local_provider) as box:
            assert (await box.exec("echo fine")).stdout == "fine\n"
            async with await box.fork() as twin:
                assert await twin.status() == "running"
            assert await twin.status() == "stopped"
        assert await box.status() == "stopped"
        with pytest.raises(SandboxClosed):
            await box.exec("true")

    asyncio.run(main())


def test_blocking_calls_work_within_a_running_loop(local_provider: LocalProvider) -> None:
    """As in a notebook, whose thread runs a loop."""

    async def main() -> str:
        with swe.Sandbox(provider=local_provider) as box:
            return box.exec("echo fine").stdout

    assert asyncio.run(main()) == "fine\n"


def test_starting_twice_is_starting_once(local_provider: LocalProvider) -> None:
    open_before = len(local_provider.boxes)
    box = swe.Sandbox(provider=local_provider).start()
    with box.start() as same:
        assert same is box
        assert len(local_provider.boxes) == open_before + 1
    assert len(local_provider.boxes) == open_before
    box.close()


def test_a_sandbox_is_open_between_its_start_and_its_end(local_provider: LocalProvider) -> None:
    box = swe.Sandbox(provider=local_provider)
    assert repr(box) == "<Sandbox not open>"
    assert box.status() == "stopped"
    with pytest.raises(SandboxClosed, match=r"not open yet .*or call start\(\)"):
        box.exec("true")
    box.close()
    assert repr(box) == "<Sandbox closed>"
    open_before = len(local_provider.boxes)
    with pytest.raises(SandboxClosed, match="make a new one"):
        box.start()
    assert len(local_provider.boxes) == open_before
    with pytest.raises(SandboxClosed, match="closed"):
        box.read_text("x")


def test_an_error_within_closes_it(local_provider: LocalProvider) -> None:
    with pytest.raises(ZeroDivisionError), swe.Sandbox(provider=local_provider) as box:
        raise ZeroDivisionError
    assert box.status() == "stopped"


def test_what_a_provider_cannot_do_is_said() -> None:
    class Box:
        id = "box-1"

    class Provider:
        name = "plain"
        capabilities: frozenset[str] = frozenset()

        async def create(self, spec: object) -> Box:
            return Box()

    box = swe.Sandbox(provider=Provider()).start()  # type: ignore[arg-type]
    for call in (box.pause, box.resume, box.listen, box.processes, box.snapshot, box.fork):
        with pytest.raises(CapabilityMissing, match="plain"):
            call()


def test_an_unknown_provider_is_corrected() -> None:
    with pytest.raises(swe.errors.UnknownProvider, match="did you mean local"):
        swe.Sandbox(provider="lokal").start()


def test_threads_may_block_at_the_same_time(box: swe.Sandbox) -> None:
    found: dict[int, str] = {}

    def work(number: int) -> None:
        found[number] = box.exec(f"sleep 0.1; echo {number}").stdout

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: f"{number}\n" for number in range(8)}
    assert time.monotonic() - started < 5


def test_a_blocking_call_on_its_own_loop_says_so_instead_of_hanging(box: swe.Sandbox) -> None:
    problems: list[BaseException] = []

    def call_back(_stream: str, _data: bytes) -> None:
        try:
            box.exec("true")
        except errors.BlockedLoop as error:
            problems.append(error)

    box.exec("echo x", on_output=call_back, timeout_s=20)
    assert len(problems) == 1
    assert "swe_sdk.aio" in str(problems[0])


def frames(error: BaseException) -> list[str]:
    """The functions that a traceback goes through."""
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_an_error_of_the_caller_has_no_frames_of_ours_around_it() -> None:
    with pytest.raises(errors.UnknownProvider) as caught:
        swe.Sandbox(provider="lcoal").start()
    assert frames(caught.value)[1:] in (["start", "call"], ["start"])
    with pytest.raises(errors.InputError) as caught:
        swe.open_run("/nowhere")
    assert frames(caught.value)[1:] in (["call"], [])


def test_any_other_error_says_where_it_was_but_not_how_it_came_through_the_loop() -> None:
    async def breaks() -> None:
        {}["x"]

    with pytest.raises(KeyError) as caught:
        blocking(breaks)()
    assert frames(caught.value)[-1] == "breaks"
    assert not {"run_and_tell", "_call_func", "result"} & set(frames(caught.value))


def test_a_blocking_call_costs_less_than_a_millisecond() -> None:
    """The best of some rounds: what is measured is the way to the loop and back, not what else this machine does."""

    async def nothing() -> int:
        return 1

    call = blocking(nothing)
    call()

    def round_ms() -> float:
        started = time.perf_counter()
        for _ in range(100):
            call()
        return (time.perf_counter() - started) * 10

    assert min(round_ms() for _ in range(10)) <= 1.0


def test_a_forked_child_starts_a_loop_of_its_own() -> None:
    program = """
import os, swe_sdk as swe
from swe_sdk._loop import blocking

async def answer(): return os.getpid()

ask = blocking(answer)
assert ask() == os.getpid()
child = os.fork()
if not child:
    os._exit(0 if ask() == os.getpid() else 1)
assert os.waitpid(child, 0)[1] == 0
print("both")
"""
    assert fresh(program) == "both\n"


def interrupt_after(seconds: float, call: Callable[[], object]) -> float:
    """Press Ctrl-C during a call; how long it took to come back."""

    def press(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, press)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    started = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    return time.monotonic() - started


def test_after_an_interrupt_the_session_goes_on(box: swe.Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    """As in a notebook: the command and all that it started are gone, the sandbox is not."""
    assert interrupt_after(0.3, lambda: box.exec("setsid sleep 600 & sleep 600")) < 5
    assert "interrupted" in capsys.readouterr().err
    assert box.processes() == []
    assert box.exec("echo fine").stdout == "fine\n"


def test_an_interrupted_build_leaves_no_box(local_provider: LocalProvider, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("interrupted")
    environment = swe.SourceEnvironment(source=swe.DirectorySource(path=str(tmp_path)), install=("sleep 600",))
    open_before = len(local_provider.boxes)
    assert interrupt_after(0.7, lambda: swe.Sandbox(environment, provider=local_provider).start()) < 6
    assert len(local_provider.boxes) == open_before


def test_a_diff_through_the_face(local_provider: LocalProvider, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("x = 1\n")
    environment = swe.SourceEnvironment(source=swe.DirectorySource(path=str(tmp_path)))
    prepared = swe.prepare(environment, provider=local_provider)
    with swe.Sandbox(prepared, provider=local_provider) as box:
        assert box.base_commit == prepared.base_commit
        assert not box.diff()
        box.write_text("code.py", "x = 2\n")
        patch = box.diff()
        assert isinstance(patch, swe.Patch)
        assert [file.paths for file in patch.files] == [(b"code.py",)]
        assert b"-x = 1\n+x = 2\n" in patch.data
