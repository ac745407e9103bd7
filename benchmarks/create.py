"""Create, exec /bin/true, tear down: what one sandbox costs from nothing to nothing."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.contest import Contender, Series, contest, cpu_row, timed, wall_row
from benchmarks.docker_daemon import IMAGE
from benchmarks.lab import Lab
from benchmarks.rows import Row, Target, Unavailable, missing
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.local.provider import LocalProvider

TITLE = "Create, exec /bin/true, tear down"
_LIMIT, _DOCKER, _LOCAL = "C limit program", "docker run --rm", "local box"


async def rows(lab: Lab) -> list[Row]:
    """The local provider beside the kernel's limit, bubblewrap and docker, where they are there."""
    async with lab.provider() as provider:
        contenders: list[Contender] = [_local(lab, provider)]
        others: dict[str, str] = {}
        absent: list[Row] = []
        for kind, make in (("limit", _limit), ("bwrap", _bubblewrap), ("docker", _docker)):
            try:
                contender = make(lab)
                await contender.run(1)
            except Unavailable as error:
                absent.append(missing(kind, error))
            else:
                contenders.append(contender)
                others[kind] = contender.name
        series = await contest(contenders, lab.settings.rounds, lab.meter)
    return [*_rows(series[_LOCAL], {kind: series[name] for kind, name in others.items()}), *absent]


def _rows(local: Series, others: dict[str, Series]) -> Iterator[Row]:
    for name in ("limit", "bwrap"):
        if name in others:
            yield from (wall_row(others[name]), cpu_row(others[name]))
    if "docker" in others:
        yield wall_row(others["docker"], local, Target(20, is_least=True))
        yield cpu_row(others["docker"], local)
    yield wall_row(local, others.get("limit"))
    yield cpu_row(local, others.get("limit"), Target(4.5) if "limit" in others else None)
    if "bwrap" in others:
        yield wall_row(local, others["bwrap"])
        yield cpu_row(local, others["bwrap"], Target(1.7))


def _local(lab: Lab, provider: LocalProvider) -> Contender:
    async def cycle() -> None:
        box = await provider.create(SandboxSpec())
        result = await box.exec(["/bin/true"])
        await box.close()
        assert result.exit_code == 0, result

    return Contender(_LOCAL, lambda count: timed(count, cycle), lab.settings.create_batch)


def _limit(lab: Lab) -> Contender:
    return Contender(_LIMIT, lab.limit_of_a_box(_places(lab)).run, lab.settings.create_batch)


def _bubblewrap(lab: Lab) -> Contender:
    bwrap = lab.bubblewrap
    stopwatch = lab.stopwatch_of(_places(lab), *bwrap.command(str(lab.root), "/bin/true"))
    return Contender(bwrap.name, stopwatch.run, lab.settings.create_batch)


def _docker(lab: Lab) -> Contender:
    docker, settings = lab.docker, lab.settings
    command = docker.argv(*docker.run("--rm", IMAGE, "/bin/true"))
    stopwatch = lab.stopwatch_of(_places(lab), *command, env=docker.env)
    return Contender(_DOCKER, stopwatch.run, settings.docker_batch, settings.docker_settle_s, docker.is_metered)


def _places(lab: Lab) -> int:
    return lab.settings.rounds * (lab.settings.create_batch + 1) + 1
