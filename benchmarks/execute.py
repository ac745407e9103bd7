"""Run /bin/true in a sandbox that is there already."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.contest import Contender, Series, contest, cpu_row, timed, wall_row
from benchmarks.docker_daemon import IMAGE
from benchmarks.lab import Lab
from benchmarks.rows import Row, Target, Unavailable, missing
from swe_sdk.sandbox.contract import Box, SandboxSpec

TITLE = "Exec /bin/true in a live sandbox"
_SPAWN, _DOCKER, _LOCAL = "posix_spawn (C, no sandbox)", "docker exec", "local box"


async def rows(lab: Lab) -> list[Row]:
    """The local provider beside a process without any sandbox, and docker."""
    async with lab.provider() as provider:
        box = await provider.create(SandboxSpec())
        contenders = [_local(lab, box)]
        absent: list[Row] = []
        for name, make in ((_SPAWN, _spawn), (_DOCKER, _docker)):
            try:
                contenders.append(make(lab))
            except Unavailable as error:
                absent.append(missing(name, error))
        series = await contest(contenders, lab.settings.rounds, lab.meter)
        await box.close()
    return [*_rows(series), *absent]


def _rows(series: dict[str, Series]) -> Iterator[Row]:
    local, spawn, docker = series[_LOCAL], series.get(_SPAWN), series.get(_DOCKER)
    if spawn is not None:
        yield from (wall_row(spawn), cpu_row(spawn))
    if docker is not None:
        yield from (wall_row(docker, local), cpu_row(docker, local))
    target = None if spawn is None else Target(2)
    yield from (wall_row(local, spawn, target), cpu_row(local, spawn, target))


def _local(lab: Lab, box: Box) -> Contender:
    async def one() -> None:
        result = await box.exec(["/bin/true"])
        assert result.exit_code == 0, result

    return Contender(_LOCAL, lambda count: timed(count, one), lab.settings.exec_batch)


def _spawn(lab: Lab) -> Contender:
    return Contender(_SPAWN, lab.stopwatch_of(_places(lab), "/bin/true").run, lab.settings.exec_batch)


def _docker(lab: Lab) -> Contender:
    docker, settings = lab.docker, lab.settings
    container = docker(*docker.run("--detach", IMAGE, "/bin/sleep", "86400"))
    lab.at_end(docker, "rm", "--force", container)
    stopwatch = lab.stopwatch_of(_places(lab), *docker.argv("exec", container, "/bin/true"), env=docker.env)
    return Contender(_DOCKER, stopwatch.run, settings.docker_batch, settings.docker_settle_s, docker.is_metered)


def _places(lab: Lab) -> int:
    return lab.settings.rounds * (lab.settings.exec_batch + 1)
