"""What is pure in the Docker provider: users, requests, failures, control groups."""

from __future__ import annotations

from pathlib import Path

import docker.errors
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.errors import InputError, NoSpace
from swe_sdk.sandbox.contract import Limits, Mount, SandboxSpec
from swe_sdk.sandbox.exec_client import RunAs
from swe_sdk.sandbox.providers.docker.container import CAPABILITIES, Image, container_request
from swe_sdk.sandbox.providers.docker.failures import Conflict, EngineSilent, NotThere, Refused, translated
from swe_sdk.sandbox.providers.docker.memory import memory_group
from swe_sdk.sandbox.runtime import Runtime
from swe_sdk.sandbox.users import resolve

PASSWD = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1001::/home/ann:/bin/sh\n1000x:x:5:5::/:\n"
GROUPS = "root:x:0:\nann:x:1001:\ndocker:x:99:bob,ann\nwheel:x:10:ann\n"
ANN = {"HOME": "/home/ann", "USER": "ann", "LOGNAME": "ann"}
RUNTIME = Runtime(Path("/state/runtimes/abc"), has_loader=True)


@pytest.mark.parametrize(
    ("user", "expected"),
    {
        "ann": RunAs(1000, 1001, (1001, 99, 10), ANN),
        "1000": RunAs(1000, 1001, (1001, 99, 10), ANN),
        "ann:docker": RunAs(1000, 99, (), ANN),
        "ann:7": RunAs(1000, 7, (), ANN),
        "2000": RunAs(2000, 0, (), {"HOME": "/", "USER": "2000", "LOGNAME": "2000"}),
        "2000:10": RunAs(2000, 10, (), {"HOME": "/", "USER": "2000", "LOGNAME": "2000"}),
        "root": RunAs(0, 0, (0,), {"HOME": "/root", "USER": "root", "LOGNAME": "root"}),
    }.items(),
)
def test_users_by_name_and_number(user: str, expected: RunAs) -> None:
    assert resolve(user, PASSWD, GROUPS) == expected


def test_root_needs_no_entry() -> None:
    assert resolve("root", "", "") == RunAs(0, 0, (), {"HOME": "/root", "USER": "root", "LOGNAME": "root"})


@pytest.mark.parametrize("user", ["bob", "", "ann:nobody", "-1", "99999999999", "1e3", "\N{SUPERSCRIPT TWO}"])
def test_users_that_are_not_there(user: str) -> None:
    with pytest.raises(InputError, match="has no"):
        resolve(user, PASSWD, GROUPS)


@given(st.text(), st.text(), st.text())
def test_whatever_a_box_writes_into_its_files_a_user_is_found_or_not(user: str, passwd: str, groups: str) -> None:
    try:
        found = resolve(user, passwd, groups)
    except InputError:
        return
    assert 0 <= found.uid < 1 << 32
    assert 0 <= found.gid < 1 << 32


def image(**config: object) -> Image:
    return Image.from_api({"Id": "sha256:1", "Config": config or None, "RootFS": {"Layers": ["a", "b"]}})


def request(spec: SandboxSpec, made: Image | None = None) -> dict[str, object]:
    return container_request(spec, made or image(), {"label": "yes"}, RUNTIME, Path("/state/boxes/b"))


def test_a_container_is_closed_by_default() -> None:
    made = request(SandboxSpec(image="x"))
    host = made["HostConfig"]
    assert isinstance(host, dict)
    assert host["NetworkMode"] == "none"
    assert host["CapDrop"] == ["ALL"]
    assert set(host["CapAdd"]) == set(CAPABILITIES)
    assert not {"SYS_ADMIN", "SYS_PTRACE", "NET_RAW", "MKNOD", "SYS_CHROOT"} & set(CAPABILITIES)
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert "Privileged" not in host
    assert all(mount["ReadOnly"] for mount in host["Mounts"])
    assert host["Memory"] == host["MemorySwap"] > 0
    assert host["PidsLimit"] > 0
    assert made["Labels"] == {"label": "yes", "swe_sdk.kind": "box"}


def test_limits_and_mounts_of_a_spec_arrive() -> None:
    limits = Limits(memory_mib=64, cpus=0.5, pids=10, file_size_bytes=1000, open_files=50)
    mounts = (Mount(source="/here", target="/there"),)
    host = request(SandboxSpec(image="x", limits=limits, mounts=mounts, network="host"))["HostConfig"]
    assert isinstance(host, dict)
    assert (host["Memory"], host["NanoCpus"], host["PidsLimit"]) == (64 << 20, 500_000_000, 11)
    assert {limit["Name"]: limit["Hard"] for limit in host["Ulimits"]} == {"core": 0, "fsize": 1000, "nofile": 50}
    assert {"Type": "bind", "Source": "/here", "Target": "/there", "ReadOnly": True} in host["Mounts"]
    assert host["NetworkMode"] == "host"


def test_nothing_that_an_image_sets_reaches_the_supervisor() -> None:
    made = request(SandboxSpec(image="x"), image(Env=["LD_PRELOAD=/evil.so", "PATH=/bin", "EMPTY="], User="ann"))
    assert made["Env"] == ["EMPTY", "LD_PRELOAD", "PATH"], "a name alone takes the variable away"
    assert made["User"] == "0:0"


def api_error(status: int, text: str) -> docker.errors.APIError:
    response = requests.Response()
    response.status_code = status
    return docker.errors.APIError("failed", response=response, explanation=text)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (api_error(404, "No such container"), NotThere),
        (api_error(409, "already in use"), Conflict),
        (api_error(500, "write /x: no space left on device"), NoSpace),
        (api_error(500, "something"), Refused),
        (requests.exceptions.ReadTimeout("late"), EngineSilent),
        (ConnectionRefusedError(111, "refused"), EngineSilent),
        (docker.errors.DockerException("odd"), EngineSilent),
    ],
)
def test_failures_have_kinds(error: Exception, kind: type) -> None:
    ours = translated(error, "try")
    assert type(ours) is kind
    assert "try" in str(ours)


def test_defects_of_ours_are_not_the_engines() -> None:
    assert translated(KeyError("Id"), "try") is None


@pytest.mark.parametrize(
    ("lines", "files"),
    {
        "9:memory:/docker/abc\n0::/\n": {"memory/docker/abc/memory.oom_control": "oom_kill 3\n"},
        "0::/docker/abc\n": {"docker/abc/memory.events": "oom 9\noom_kill 3\n", "cgroup.controllers": ""},
        "1:name=systemd:/x\n0::/docker/abc\n": {"docker/abc/memory.events": "oom_kill 3\n", "cgroup.controllers": ""},
    }.items(),
)
def test_both_versions_of_control_groups_tell_of_kills(tmp_path: Path, lines: str, files: dict[str, str]) -> None:
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/cgroup").write_text(lines)
    for name, text in files.items():
        path = tmp_path / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    group = memory_group(7, root=tmp_path / "fs", proc=tmp_path / "proc")
    assert group is not None
    assert group.has_killed()
    assert not group.has_killed(), "nothing new"
    assert memory_group(8, root=tmp_path / "fs", proc=tmp_path / "proc") is None
