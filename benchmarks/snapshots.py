"""Freeze what a sandbox has written, and make another one from it: by size, beside docker commit and docker run."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.docker_daemon import IMAGE, Docker
from benchmarks.lab import Lab
from benchmarks.rows import Row, Target, Unavailable, missing
from benchmarks.settings import Load
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.local.provider import LocalProvider

TITLE = "Snapshot and fork"
_TARGET = Target(1.5)
_COMMITTED = f"{IMAGE}-committed"


@dataclass
class Times:
    """Seconds of each repeat."""

    freeze_s: list[float] = field(default_factory=list)
    fork_s: list[float] = field(default_factory=list)
    """Until a program has run in the new sandbox."""


async def rows(lab: Lab) -> list[Row]:
    """A row for the snapshot and one for the fork, of each load, ours and docker's."""
    loads, settings = lab.settings.loads, lab.settings
    local = {load: Times() for load in loads}
    async with lab.provider() as provider:
        for _ in range(settings.snapshot_repeats):
            for load in loads:
                await _measure(provider, load, local[load])
    found = list(_local_rows(local))
    try:
        for load in loads:
            found += _docker_rows(load, local[load], _docker(lab, load))
    except Unavailable as error:
        found.append(missing("docker commit and run", error))
    return found


async def _measure(provider: LocalProvider, load: Load, times: Times) -> None:
    box = await provider.create(SandboxSpec(workdir="/testbed"))
    written = await box.exec(_writing(load), timeout_s=600)
    assert written.exit_code == 0, written
    start = time.perf_counter()
    snapshot = await provider.snapshot(box)
    frozen = time.perf_counter()
    fork = await provider.create(SandboxSpec(workdir="/testbed", snapshot=snapshot.id))
    result = await fork.exec(["/bin/true"])
    forked = time.perf_counter()
    assert result.exit_code == 0, result
    assert (await fork.exec(f"[ $(ls | wc -l) = {load.files or 1} ]")).exit_code == 0
    times.freeze_s.append(frozen - start)
    times.fork_s.append(forked - frozen)
    await fork.close()
    await box.close()
    await provider.delete_snapshot(snapshot.id)


def _writing(load: Load) -> str:
    """A shell line that writes the load into the working directory."""
    if load.files:
        return f"seq {load.files} | split -l 1 -a 5"
    return f"head -c {load.blob_bytes} /dev/zero > blob"


def _local_rows(local: dict[Load, Times]) -> Iterator[Row]:
    first = next(iter(local))
    parts: list[tuple[str, Callable[[Times], list[float]]]] = [
        ("snapshot", lambda times: times.freeze_s),
        ("fork and exec", lambda times: times.fork_s),
    ]
    for name, part in parts:
        base = statistics.median(part(local[first]))
        for load, times in local.items():
            row = _row(f"local {name}, {load.name}", part(times))
            if load != first:
                assert row.value is not None
                target = _TARGET if load.blob_bytes else None
                row = Row(row.name, row.value, row.unit, row.least, row.value / 1e3 / base, first.name, target)
            yield row


def _docker(lab: Lab, load: Load) -> Times | None:
    """The same with docker; None where the load is too large for this run."""
    if load.blob_bytes > lab.settings.docker_largest_bytes:
        return None
    content = _content(lab, load)
    times = Times()
    for _ in range(lab.settings.docker_snapshot_repeats):
        _measure_docker(lab.docker, content, times)
    shutil.rmtree(content)
    return times


def _content(lab: Lab, load: Load) -> Path:
    folder = lab.new_folder("content")
    for number in range(load.files):
        (folder / f"{number:05}").write_text(f"{number}\n")
    if load.blob_bytes:
        (folder / "blob").write_bytes(bytes(load.blob_bytes))
    return folder


def _measure_docker(docker: Docker, content: Path, times: Times) -> None:
    container = docker(*docker.run("--detach", IMAGE, "/bin/sleep", "86400"))
    docker("cp", str(content), f"{container}:/testbed")
    start = time.perf_counter()
    docker("commit", container, _COMMITTED)
    frozen = time.perf_counter()
    docker(*docker.run("--rm", _COMMITTED, "/bin/true"))
    forked = time.perf_counter()
    times.freeze_s.append(frozen - start)
    times.fork_s.append(forked - frozen)
    docker("rm", "--force", container)
    docker("image", "rm", "--force", _COMMITTED)


def _docker_rows(load: Load, local: Times, docker: Times | None) -> Iterator[Row]:
    if docker is None:
        yield Row(f"docker commit, docker run, {load.name}", note="left out; --full does it")
        return
    for name, ours, theirs in (
        ("docker commit", local.freeze_s, docker.freeze_s),
        ("docker run --rm", local.fork_s, docker.fork_s),
    ):
        row = _row(f"{name}, {load.name}", theirs)
        ratio = statistics.median(theirs) / statistics.median(ours)
        yield Row(row.name, row.value, row.unit, row.least, ratio, "local")


def _row(name: str, seconds: list[float]) -> Row:
    return Row(name, statistics.median(seconds) * 1e3, "ms", min(seconds) * 1e3)
