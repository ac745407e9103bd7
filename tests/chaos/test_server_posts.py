"""SWE_SDK_SERVER_POSTS posts at once (``make chaos``: 500, over 50 patches), from the seed SWE_SDK_SEED."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swe_sdk.sandbox.leases import LeaseBook
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.chaos.docker_kill_points import Place
from tests.chaos.server_posts import signal_and_start, storm
from tests.server.serving import Poster, ServerProcess, post_body, slow_row

_POSTS = int(os.environ.get("SWE_SDK_SERVER_POSTS") or 40)
_SEED = int(os.environ.get("SWE_SDK_SEED") or 1)
_NAME = "tiny__slow-1"


def warm_up(server: ServerProcess) -> None:
    """Have the environment built, which is not what this is about."""
    answer = Poster(server, post_body({"instance_id": _NAME}, "")).result().json()
    assert answer["status"] == "unresolved", answer


@pytest.mark.timeout(120 + 2 * _POSTS)
def test_posts_with_clients_killed_on_local_boxes(tmp_path: Path, local_provider: LocalProvider) -> None:
    rows = [slow_row(tmp_path / "repo", 0.3, _NAME)]
    server = ServerProcess(tmp_path, "--workers", "2", "--results", str(tmp_path / "results"), rows=rows)
    try:
        warm_up(server)
        report = storm(server, tmp_path, _NAME, _POSTS, _SEED, None)
    finally:
        code = server.stop()
    print(report)
    assert report.problems == []
    assert report.gone > 0
    assert (code, server.left()) == (0, [])


@pytest.mark.network
@pytest.mark.timeout(300 + 3 * _POSTS)
def test_posts_with_clients_killed_and_the_engine_restarted(place: Place) -> None:
    rows = [slow_row(place.folder / "repo", 0.3, _NAME)]
    arguments = ("--provider", "docker", "--workers", "4", "--results", str(place.folder / "results"))
    env = {name: place.env[name] for name in ("DOCKER_HOST", "SWE_SDK_BASE_IMAGE")}
    server = ServerProcess(place.folder, *arguments, rows=rows, **env)
    try:
        warm_up(server)
        report = storm(server, place.folder, _NAME, _POSTS, _SEED, signal_and_start(place.engine))
    finally:
        code = server.stop()
    print(report)
    assert report.problems == []
    assert report.gone > 0
    assert code == 0, server.log.read_text()
    assert [container["Names"] for container in place.engine.containers()] == []
    records = LeaseBook(place.state / "leases").leases()  # of boxes that the engine may still have been making
    assert [lease for lease in records if lease.state != "closing_failed" or lease.handle is not None] == []
