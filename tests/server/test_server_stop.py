"""How a server ends: in order, with every post answered and no box left."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.sandbox.reaper import OwnedBox
from swe_sdk.server.app import create_app
from swe_sdk.server.service import Service
from swe_sdk.server.settings import ServerSettings
from tests.grading.tiny import GOLD
from tests.server.conftest import StartServer
from tests.server.serving import NAME, Poster, ServerProcess, answer_patch, post_body

SLOW = "tiny__slow-1"


def test_told_to_stop_it_finishes_what_it_has_begun(start: StartServer) -> None:
    server = start("--workers", "1")
    posters = [Poster(server, post_body({"instance_id": SLOW}, answer_patch(number))) for number in (42, 43)]
    server.wait_until(posts=2, evaluations=1)
    server.process.send_signal(signal.SIGTERM)
    wait_for_draining(server)
    refused = Poster(server, post_body({"instance_id": NAME}, GOLD.decode())).result()
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
    assert int(refused.headers["retry-after"]) >= 1
    assert [poster.result().json()["reward"] for poster in posters] == [1.0, 0.0]
    assert server.stop() == 0


@pytest.mark.parametrize("again", [True, False])
def test_what_is_given_up_is_answered_with_a_mask(start: StartServer, again: bool) -> None:
    """By a second signal, or at the end of the time for finishing: one under way, one that waits."""
    server = start("--workers", "1", "--drain", "600" if again else "0.3")
    posters = [Poster(server, post_body({"instance_id": SLOW}, answer_patch(number))) for number in (80, 81)]
    server.wait_until(posts=2, evaluations=1, waiting=1)
    started = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    if again:
        wait_for_draining(server)
        server.process.send_signal(signal.SIGTERM)
    for poster in posters:
        verdict = poster.result().json()
        assert (verdict["reward"], verdict["mask_sample"], verdict["failure_kind"]) == (0.0, True, "shutdown")
        assert verdict["mask"]["retryable"] is True
    assert server.stop() == 0
    assert time.monotonic() - started < 10
    assert server.boxes() == []


_SLOW_TO_CLOSE = """
import anyio
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.server import serve as room
from swe_sdk.server.settings import ServerSettings
from swe_sdk.testing import FakeProvider

class Slow(FakeProvider):
    async def aclose(self):
        print("closing", flush=True)
        await anyio.sleep(1)
        print("closed", flush=True)

async def get_provider(name):
    return Slow()

room.get_provider = get_provider
print(anyio.run(lambda: room.serve(ServerSettings(provider="fake"), TaskSet([]), port=0, on_ready=print)).name)
"""


def test_a_signal_while_its_sandboxes_are_removed_does_not_leave_them() -> None:
    command = [sys.executable, "-u", "-c", _SLOW_TO_CLOSE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline()]
        process.terminate()
        said.append(process.stdout.readline())
        process.terminate()
        said += process.stdout.readlines()
    assert (process.returncode, said[1:]) == (0, ["closing\n", "closed\n", "SIGTERM\n"]), said


def test_an_interrupt_ends_it_like_any_command(start: StartServer) -> None:
    assert start().stop(signal.SIGINT) == 130


def test_a_killed_server_leaves_nothing_that_the_next_one_does_not_remove(start: StartServer) -> None:
    server = start("--workers", "1")
    poster = Poster(server, post_body({"instance_id": SLOW}, answer_patch(90)))
    server.wait_until(evaluations=1)
    while not server.boxes():
        time.sleep(0.01)
    server.stop(signal.SIGKILL)
    poster.join()
    assert poster.answer is None
    next_one = start()
    deadline = time.monotonic() + 20
    while next_one.boxes():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def wait_for_draining(server: ServerProcess) -> None:
    with server.client() as client:
        while (answer := client.get("/health")).status_code == 200:
            time.sleep(0.01)
    assert (answer.status_code, answer.json()["status"]) == (503, "draining")


class Reapable:
    """A provider that notes when it is asked what it has."""

    name = "reapable"
    settings: Mapping[str, Any] = {}

    def __init__(self) -> None:
        self.asked = 0

    async def owned(self) -> list[OwnedBox]:
        self.asked += 1
        return []

    async def remove(self, handle: str) -> None:
        raise AssertionError(handle)


@pytest.mark.anyio
async def test_the_reaper_begins_and_ends_with_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWE_SDK_STATE", str(tmp_path))
    provider: Any = Reapable()
    app = create_app(Service(ServerSettings(reap_every_s=0.05, metrics=False), TaskSet(()), provider))
    assert provider.asked == 0
    async with app.router.lifespan_context(app):
        with anyio.fail_after(10):
            while provider.asked < 3:
                await anyio.sleep(0.01)
    asked = provider.asked
    await anyio.sleep(0.2)
    assert provider.asked == asked
