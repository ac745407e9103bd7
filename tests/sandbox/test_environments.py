"""Environments are built once, frozen, and the same for everybody who asks; a build that fails leaves nothing."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import BuildFailed, CapabilityMissing
from swe_sdk.model.environment import DirectorySource, GitSource, ImageEnvironment, SourceEnvironment
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.environments import prepare
from swe_sdk.sandbox.prepared import PreparedEnvironment
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.sandbox.tree import take_patch
from tests.sandbox.boxes import output

pytestmark = pytest.mark.anyio


async def test_a_directory_becomes_a_repository_with_one_commit(
    local_provider: LocalProvider, source: DirectorySource
) -> None:
    said: list[str] = []
    environment = SourceEnvironment(source=source, env={"GREETING": "it's “odd”\n$HOME"})
    prepared = await prepare(local_provider, environment, on_progress=said.append)
    assert prepared.build_s > 0
    assert said
    assert "/opt/venv" not in prepared.env["PATH"]
    box = await local_provider.create(prepared.spec())
    try:
        assert await output(box, "pwd; ./run.sh") == "/testbed\nran"
        assert await output(box, "git log --format='%H %s %ad' --date=unix") == f"{prepared.base_commit} base 946684800"
        assert await output(box, "git status --porcelain") == ""
        assert await output(box, "git ls-files") == ".gitignore\npkg/__init__.py\nrun.sh"
        assert await output(box, 'cat old.log; printf %s "$GREETING"') == "ignored, and there\nit's “odd”\n$HOME"
        assert await output(box, "git config gc.auto; git remote; stat -c %U pkg") == "0\nagent"
    finally:
        await box.close()


async def test_it_is_built_once(local_provider: LocalProvider, source: DirectorySource) -> None:
    environment = SourceEnvironment(source=source, install=("echo built >> marker.txt",))
    first = await prepare(local_provider, environment)
    said: list[str] = []
    second = await prepare(local_provider, environment, on_progress=said.append)
    assert second == first.model_copy(update={"build_s": 0.0})
    assert said == []


@pytest.mark.parametrize(
    "change",
    [
        {"install": ("true",)},
        {"pre_install": ("true",)},
        {"env": {"A": "1"}},
        {"workdir": "/elsewhere"},
    ],
)
async def test_everything_that_matters_is_part_of_the_key(
    local_provider: LocalProvider, source: DirectorySource, change: dict[str, object]
) -> None:
    environment = SourceEnvironment(source=source)
    first = await prepare(local_provider, environment)
    assert (await prepare(local_provider, environment.model_copy(update=change))).key != first.key


async def test_a_moved_directory_with_the_same_content_is_the_same(
    local_provider: LocalProvider, source: DirectorySource, tmp_path: Path
) -> None:
    first = await prepare(local_provider, SourceEnvironment(source=source))
    shutil.copytree(source.path, tmp_path / "copy", symlinks=True)
    moved = DirectorySource(path=str(tmp_path / "copy"))
    assert (await prepare(local_provider, SourceEnvironment(source=moved))).key == first.key
    (tmp_path / "copy/pkg/__init__.py").write_text("changed = True\n")
    assert (await prepare(local_provider, SourceEnvironment(source=moved))).key != first.key


async def test_a_git_repository_at_a_commit_has_no_future(local_provider: LocalProvider, tmp_path: Path) -> None:
    root = tmp_path / "upstream"
    run = ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@localhost"]
    subprocess.run(["git", "init", "-q", "-b", "main", str(root)], check=True)
    for number in (1, 2):
        (root / "code.py").write_text(f"version = {number}\n# the fix is only in {number}\n")
        subprocess.run([*run, "add", "-A"], check=True)
        subprocess.run([*run, "commit", "-q", "-m", f"the message of commit {number}"], check=True)
        subprocess.run([*run, "tag", f"v{number}"], check=True)
    source = GitSource(url=str(root), commit="v1")
    prepared = await prepare(local_provider, SourceEnvironment(source=source))
    expected = subprocess.run([*run, "rev-parse", "v1"], check=True, capture_output=True, text=True).stdout.strip()
    assert prepared.base_commit == expected
    box = await local_provider.create(prepared.spec())
    try:
        assert await output(box, "cat code.py") == "version = 1\n# the fix is only in 1"
        assert await output(box, "git status --porcelain; git log --all --format=%s") == "the message of commit 1"
        everything = await output(box, "git cat-file --batch-all-objects --batch-check | wc -l")
        assert everything == "3", "one commit, one tree, one file"
        assert await output(box, f"grep -r -a {tmp_path.name} .git || true") == "", "nothing says where it is from"
    finally:
        await box.close()


async def test_what_the_installation_changes_is_no_patch(
    local_provider: LocalProvider, source: DirectorySource
) -> None:
    steps = ("echo 'version = 1' > pkg/version.py", "mkdir build && echo made > build/out", "chmod -x run.sh")
    prepared = await prepare(local_provider, SourceEnvironment(source=source, pre_install=steps))
    box = await local_provider.create(prepared.spec())
    try:
        assert await output(box, "cat pkg/version.py build/out") == "version = 1\nmade"
        patch = await take_patch(box, workdir=prepared.workdir, base_commit=prepared.base_commit)
        assert patch.data == b""
    finally:
        await box.close()


async def test_a_build_has_the_network_and_a_sandbox_has_not(
    local_provider: LocalProvider, source: DirectorySource
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = f"exec 3<>/dev/tcp/127.0.0.1/{port}"
        prepared = await prepare(local_provider, SourceEnvironment(source=source, install=(connect,)))
        box = await local_provider.create(prepared.spec())
        try:
            result = await box.exec(connect)
            assert result.exit_code != 0
            assert "refused" in result.stderr
        finally:
            await box.close()


@pytest.mark.parametrize("workdir", ["/work dir/it's", "/opt/deep/er/testbed", "/home/agent/$HOME"])
async def test_the_repository_may_lie_anywhere(
    local_provider: LocalProvider, source: DirectorySource, workdir: str
) -> None:
    prepared = await prepare(local_provider, SourceEnvironment(source=source, workdir=workdir, install=("pwd > p",)))
    assert prepared.workdir == workdir
    box = await local_provider.create(prepared.spec())
    try:
        assert await output(box, "cat p; ./run.sh") == f"{workdir}\nran"
        await box.write("pkg/new.py", b"new\n")
        patch = await take_patch(box, workdir=workdir, base_commit=prepared.base_commit)
        assert [file.new for file in patch.files] == [b"pkg/new.py"]
    finally:
        await box.close()


async def test_daemons_of_a_build_do_not_keep_it_from_being_frozen(
    local_provider: LocalProvider, source: DirectorySource
) -> None:
    large = "import time; block = bytearray(b'x') * (300 << 20); print('ready', flush=True); time.sleep(600)"
    steps = (
        "for i in $(seq 60); do setsid sleep 600 >/dev/null 2>&1 & done; sleep 0.2",
        "setsid bash -c 'trap \"\" TERM HUP; while :; do :; done' >/dev/null 2>&1 &",
        f'setsid python3 -c "{large}" > /tmp/ready 2>&1 & until grep -q ready /tmp/ready; do sleep 0.05; done',
    )
    prepared = await prepare(local_provider, SourceEnvironment(source=source, install=steps))
    box = await local_provider.create(prepared.spec())
    try:
        assert await box.processes() == []  # type: ignore[attr-defined]
    finally:
        await box.close()


class Plain:
    """A provider that can do nothing in particular."""

    name = "plain"
    capabilities: frozenset[str] = frozenset()


class Fetching(Plain):
    """One that fetches images by itself."""

    def __init__(self) -> None:
        self.images: list[str] = []

    async def ensure_image(self, image: str, *, refresh: bool = False, on_progress: object = None) -> str:
        self.images.append(image)
        return f"digest {len(self.images)}"


@pytest.mark.parametrize("make", [Plain, Fetching])
async def test_images_are_not_built_and_made_ready_where_that_can_be(make: type[Plain]) -> None:
    provider = make()
    environment = ImageEnvironment(image="debian:12", workdir="/src", env={"A": "1"})
    prepared = await prepare(provider, environment)  # type: ignore[arg-type]
    assert (prepared.image, prepared.workdir, prepared.env) == ("debian:12", "/src", {"A": "1"})
    assert prepared.snapshot is None
    assert prepared.base_is_open
    assert getattr(provider, "images", ["debian:12"]) == ["debian:12"]
    same_tag = await prepare(provider, environment)  # type: ignore[arg-type]
    assert (same_tag.key == prepared.key) == (make is Plain), "what is there decides, where it is known"


async def test_a_provider_that_cannot_build_says_so(source: DirectorySource) -> None:
    with pytest.raises(CapabilityMissing, match="plain"):
        await prepare(Plain(), SourceEnvironment(source=source))  # type: ignore[arg-type]


# -- many at once -----------------------------------------------------------------------------------------------------


async def test_tasks_that_ask_at_the_same_time_share_one_build(
    local_provider: LocalProvider, source: DirectorySource
) -> None:
    environment = SourceEnvironment(source=source, install=("sleep 0.3",))
    said: list[str] = []
    found: list[PreparedEnvironment] = []

    async def one() -> None:
        found.append(await prepare(local_provider, environment, on_progress=said.append))

    async with anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(one)
    assert len({each.snapshot for each in found}) == 1
    assert sum("install step" in each for each in said) == 1
    assert sum(each.build_s > 0 for each in found) == 1


PROGRAM = """
import json, sys, anyio
from swe_sdk.model.environment import SourceEnvironment
from swe_sdk.sandbox.environments import prepare
from swe_sdk.sandbox.providers.local.provider import LocalProvider

async def main():
    provider = LocalProvider(sys.argv[1])
    prepared = await prepare(provider, SourceEnvironment.model_validate_json(sys.argv[2]))
    await provider.aclose()
    print(prepared.model_dump_json())

anyio.run(main)
"""


async def test_processes_that_ask_at_the_same_time_share_one_build(
    local_provider: LocalProvider, source: DirectorySource
) -> None:
    environment = SourceEnvironment(source=source, install=("sleep 1",))
    command = [sys.executable, "-c", PROGRAM, str(local_provider.state), environment.model_dump_json()]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    found = [json.loads(child.communicate(timeout=60)[0]) for child in children]
    assert len({each["snapshot"] for each in found}) == 1
    assert sum(each["build_s"] > 0 for each in found) == 1
    assert (await prepare(local_provider, environment)).snapshot == found[0]["snapshot"]


async def test_a_child_that_was_forked_during_a_build_does_not_hold_its_lock(
    local_provider: LocalProvider, source: DirectorySource
) -> None:
    """As a data loader does it that forks in one thread while another prepares."""
    forks = (
        "    import os, time\n"
        "    def fork(said):\n"
        "        if 'install' in said and os.fork() == 0:\n"
        "            os.close(1)\n"
        "            time.sleep(20)\n"
        "            os._exit(0)\n"
        "    prepared ="
    )
    program = PROGRAM.replace("    prepared =", forks).replace("sys.argv[2])", "sys.argv[2]), on_progress=fork")
    environment = SourceEnvironment(source=source, install=("exit 3",))
    command = [sys.executable, "-c", program, str(local_provider.state), environment.model_dump_json()]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        child.wait(60)
        with anyio.fail_after(10), pytest.raises(BuildFailed):
            await prepare(local_provider, environment)
    finally:
        os.killpg(child.pid, 9)
        child.stdout.close()  # type: ignore[union-attr]
        child.stderr.close()  # type: ignore[union-attr]


async def test_offline_once_built(
    local_provider: LocalProvider, source: DirectorySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second process finds it, and needs neither an index nor the programs that the build needed."""
    environment = SourceEnvironment(source=source, install=("true",))
    built = await prepare(local_provider, environment)
    for variable in ("https_proxy", "PIP_INDEX_URL"):
        monkeypatch.setenv(variable, "http://127.0.0.1:1")
    other = LocalProvider(local_provider.state)
    try:
        found = await prepare(other, environment, on_progress=lambda said: pytest.fail(said))
        assert found.snapshot == built.snapshot
        box = await other.create(found.spec())
        assert await output(box, "./run.sh") == "ran"
    finally:
        await other.aclose()


async def test_the_base_system_is_there_without_any_environment(local_provider: LocalProvider) -> None:
    box = await local_provider.create(SandboxSpec(workdir="/tmp"))
    try:
        assert await output(box, "git --version && python3 -c 'print(1)'")
    finally:
        await box.close()
