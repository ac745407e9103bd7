"""An owner is one process, and nobody else is taken for it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import pytest

from swe_sdk.sandbox.owner import Owner, current_owner, is_alive, is_on_this_machine, parse_owner
from tests.shared import lacking

SAY = "import sys; from swe_sdk.sandbox.owner import current_owner; print(current_owner().label, flush=True)"


@pytest.fixture
def child():
    """Another process, that waits."""
    process = subprocess.Popen([sys.executable, "-c", f"{SAY}; sys.stdin.read()"], stdin=-1, stdout=-1, text=True)
    yield process
    process.kill()
    process.communicate()


def owner_of(process) -> Owner:
    owner = parse_owner(process.stdout.readline())
    assert owner is not None
    return owner


def test_this_process_is_alive():
    assert current_owner() == current_owner()
    assert current_owner().pid == os.getpid()
    assert is_alive(current_owner()) is True


def test_another_process_is_alive_until_it_is_dead(child):
    owner = owner_of(child)
    assert owner.pid == child.pid
    assert owner.token != current_owner().token
    assert is_alive(owner) is True
    os.kill(child.pid, signal.SIGSTOP)
    assert is_alive(owner) is True, "a stopped process goes on one day"
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert os.path.exists(f"/proc/{child.pid}"), "a zombie"
    assert is_alive(owner) is False
    child.wait()
    assert is_alive(owner) is False


@pytest.mark.parametrize("changes", [{"started": 1}, {"boot_id": "another"}])
def test_a_pid_that_belongs_to_another_process_now_is_not_the_owner(child, changes):
    owner = owner_of(child)
    if "boot_id" in changes and owner.host.endswith("/-"):
        pytest.skip("this machine has no id: another boot may be another machine's")
    assert is_alive(owner.model_copy(update=changes)) is False


def test_what_cannot_be_seen_is_not_called_dead(child):
    owner = owner_of(child)
    for changes in ({"boot_id": "another", "host": "elsewhere/123"}, {"pid_namespace": 1}):
        for pid in (owner.pid, 2**22 + 1):
            assert is_alive(owner.model_copy(update={**changes, "pid": pid})) is None


def test_a_host_name_alone_is_no_machine(child, monkeypatch):
    owner = owner_of(child).model_copy(update={"boot_id": "another", "host": "localhost/-"})
    monkeypatch.setattr("swe_sdk.sandbox.owner.current_owner", lambda: owner.model_copy(update={"boot_id": "this"}))
    assert is_alive(owner) is None
    assert not is_on_this_machine(owner)


def test_containers_of_one_kernel_are_one_machine(child):
    assert is_on_this_machine(owner_of(child).model_copy(update={"host": "container/456", "pid_namespace": 1}))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_is_another_owner():
    read, write = os.pipe()
    mine = current_owner()
    if not (pid := os.fork()):
        os.write(write, f"{is_alive(mine)}\n{current_owner().label}".encode())
        os._exit(0)
    os.close(write)
    with open(read) as pipe:
        parent_lives, label = pipe.read().split("\n")
    os.waitpid(pid, 0)
    other = parse_owner(label)
    assert (parent_lives, other.pid) == ("True", pid)
    assert current_owner() == mine
    assert is_alive(other) is False


def test_a_program_that_replaces_another_is_another_owner(tmp_path):
    script = (
        f"{SAY}\nimport os\nfrom swe_sdk.sandbox.owner import is_alive, parse_owner\n"
        "if len(sys.argv) == 1:\n"
        "    os.execv(sys.executable, [sys.executable, '-c', open('script').read(), current_owner().label])\n"
        "print(is_alive(parse_owner(sys.argv[1])))"
    )
    (tmp_path / "script").write_text(script)
    out = subprocess.check_output([sys.executable, "-c", script], text=True, cwd=tmp_path).split("\n")
    first, second = parse_owner(out[0]), parse_owner(out[1])
    assert (first.pid, first.started) == (second.pid, second.started)
    assert first.token != second.token
    assert out[2] == "False"


@pytest.mark.parametrize("label", ["", "1234", "{}", '{"pid": 1}', "\0", "[]"])
def test_labels_of_others_name_no_owner(label):
    assert parse_owner(label) is None


def test_a_process_in_another_pid_namespace_cannot_be_seen():
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-Urpf", "true"], check=False).returncode:
        lacking("no pid namespace can be made here")
    command = ["unshare", "-Urpf", "--kill-child", "--mount-proc", sys.executable, "-c", f"{SAY}; sys.stdin.read()"]
    process = subprocess.Popen(command, stdin=-1, stdout=-1, text=True)
    owner = owner_of(process)
    assert (owner.pid, owner.boot_id) == (1, current_owner().boot_id)
    assert is_alive(owner) is None
    process.communicate()
    assert is_alive(owner) is None, "nor that it is dead"


def test_where_proc_is_that_of_another_namespace_nobody_is_called_dead():
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-Urpf", "true"], check=False).returncode:
        lacking("no pid namespace can be made here")
    script = (
        "import subprocess, sys\n"
        "from swe_sdk.sandbox.owner import current_owner, is_alive, parse_owner\n"
        f"child = subprocess.Popen([sys.executable, '-c', {SAY + '; sys.stdin.read()'!r}], stdin=-1, stdout=-1)\n"
        "owner = parse_owner(child.stdout.readline())\n"
        "print(owner.pid == child.pid, is_alive(owner), is_alive(current_owner()))\n"
        "child.communicate()"
    )
    out = subprocess.check_output(["unshare", "-Urpf", "--kill-child", sys.executable, "-c", script], text=True)
    assert out == "True None True\n"


def test_importing_it_again_makes_no_other_owner():
    script = (
        "import importlib\n"
        "from swe_sdk.sandbox import owner\n"
        "before = owner.current_owner().model_dump()\n"
        "importlib.reload(owner)\n"
        "print(owner.is_alive(owner.Owner(**before)), owner.current_owner().model_dump() == before)"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "True True\n"
