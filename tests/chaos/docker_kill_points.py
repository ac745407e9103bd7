"""SIGKILL at a random moment of a batch of grades in containers: to the SDK, a box, a program, or the engine itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from pathlib import Path

import docker

from tests.chaos.kill_points import Report, children, kill, left_processes, wrong_outcomes
from tests.sandbox.docker.private_engine import PrivateEngine

TASKS = ("mini__calc-1", "mini__fairsplit-1", "mini__recur-1", "mini__ttlcache-1")
VICTIMS = ("sdk", "box", "program", "engine")
_ENDS_WITHIN_S = 180.0
_ENGINE_RESTS_S = 0.5


@dataclass(frozen=True)
class Place:
    """An engine of the test's own, and the directories of the SDK."""

    engine: PrivateEngine
    image: str
    state: Path
    folder: Path

    @property
    def env(self) -> dict[str, str]:
        """Of every program that uses them."""
        return {
            **os.environ,
            "DOCKER_HOST": self.engine.url,
            "SWE_SDK_BASE_IMAGE": self.image,
            "SWE_SDK_STATE": str(self.state),
            "SWE_SDK_RESULTS": str(self.folder / "results"),
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """The command line, to its end."""
        command = [sys.executable, "-m", "swe_sdk", *arguments]
        return subprocess.run(command, env=self.env, check=True, capture_output=True, timeout=600)


def grade_arguments(output: Path) -> list[str]:
    """A batch of grades, as a user starts it."""
    what = ["grade", "mini", "--patches", "gold", "--workers", "2", "--provider", "docker", "--output", str(output)]
    return [*what, "--instance-ids", *TASKS]


def asked(engine: PrivateEngine) -> AbstractContextManager[docker.APIClient]:
    """A client for a few questions."""
    return closing(docker.APIClient(base_url=engine.url, version="auto"))


def images(engine: PrivateEngine) -> set[str]:
    """All that the engine has, those without a name too."""
    with asked(engine) as api:
        return {image["Id"] for image in api.images(all=True)}


def kill_once(place: Place, victim: str, after_s: float, images_before: set[str]) -> Report:
    """Start a batch, kill ``victim`` after a while, wait for the end, clean up as users do, and look around."""
    report = Report(victim, after_s)
    output = place.folder / "outcomes.jsonl"
    output.unlink(missing_ok=True)
    batch = subprocess.Popen(
        [sys.executable, "-m", "swe_sdk", *grade_arguments(output)],
        env=place.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(after_s)
    report.hit = _strike(place, batch, victim)
    try:
        batch.wait(_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        report.problems.append("the batch did not end")
        batch.kill()
        batch.wait()
    report.problems += wrong_outcomes(output, report, TASKS, complete=victim != "sdk" or not report.hit)
    place.run("reap", "--provider", "docker")
    report.problems += left_processes(place.state)
    report.problems += _left_in_engine(place.engine, images_before)
    return report


def _strike(place: Place, batch: subprocess.Popen[bytes], victim: str) -> bool:
    if victim == "engine":
        is_running = batch.poll() is None
        place.engine.signal(signal.SIGKILL)
        time.sleep(_ENGINE_RESTS_S)
        place.engine.start()
        return is_running
    if victim == "sdk":
        return batch.poll() is None and kill(batch.pid)
    while batch.poll() is None:  # between two boxes there is nothing to hit
        boxes = _first_processes(place.engine)
        found = boxes if victim == "box" else [child for box in boxes for child in children(box)]
        if found:
            return kill(found[0])
    return False


def _first_processes(engine: PrivateEngine) -> list[int]:
    found = []
    with asked(engine) as api:
        for container in api.containers():
            with suppress(docker.errors.APIError):  # it has just gone
                found.append(int(api.inspect_container(container["Id"])["State"]["Pid"]))
    return [pid for pid in found if pid]


def _left_in_engine(engine: PrivateEngine, images_before: set[str]) -> list[str]:
    new = images(engine) - images_before
    containers = [f"a container is left: {container['Names']}" for container in engine.containers()]
    return [*containers, *(f"an image is left: {image}" for image in new)]
