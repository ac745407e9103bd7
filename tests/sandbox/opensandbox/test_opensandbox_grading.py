"""The same patches are worth the same on OpenSandbox as on docker, to the last test.

``SWE_SDK_OPENSANDBOX_TASKS`` (any value) grades eight tasks of SWE-bench Verified as well, through the program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import swe_sdk as swe
from swe_sdk import aio
from swe_sdk.model.outcome import Outcome
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from swe_sdk.sandbox.providers.opensandbox.provider import OpenSandboxProvider
from tests.sandbox.docker.images import debian_image
from tests.sandbox.opensandbox.osb_lab import make_provider
from tests.sandbox.opensandbox.server import Server
from tests.shared import shared_dir

TASK = "mini__fairsplit-1"
"""Its environment takes nothing from a package index."""
EIGHT = (
    "pallets__flask-5014",
    "psf__requests-5414",
    "pytest-dev__pytest-10051",
    "pytest-dev__pytest-10081",
    "sympy__sympy-24661",
    "sympy__sympy-23950",
    "django__django-16642",
    "django__django-17029",
)
_PATCHES = ("gold", "empty")


@pytest.fixture(scope="module", autouse=True)
def nothing_built_is_left(osb_server: Server) -> Iterator[None]:
    yield

    async def delete() -> None:
        for provider in (make_provider(), DockerProvider(state=osb_server.home / "state")):
            records = "".join(path.read_text() for path in (provider.state / "environments").glob("*.json"))
            for snapshot in await provider.snapshots():
                if snapshot.id in records:
                    await provider.delete_snapshot(snapshot.id)
            await provider.aclose()

    anyio.run(delete)


@pytest.fixture(autouse=True)
def nothing_is_left() -> None:
    """Built environments stay until the end of the module; see above."""


@pytest.mark.anyio
async def test_verdicts_are_those_of_docker(osb_server: Server, osb_provider: OpenSandboxProvider) -> None:
    task = swe.load_tasks("mini")[TASK]
    docker = DockerProvider(state=osb_server.home / "state", base_image=debian_image())
    try:
        for patch in (task.grading.gold_patch, task.grading.wrong_patch):
            here, there = [await aio.grade(task, patch, provider=each) for each in (osb_provider, docker)]
            assert _told(here) == _told(there)
            assert here.status == ("resolved" if patch == task.grading.gold_patch else "unresolved")
    finally:
        await docker.aclose()


def _told(outcome: Outcome) -> dict[str, Any]:
    told = outcome.model_dump(include={"status", "reward", "mask", "tests"})
    return {**told, "applied": outcome.patch.applied, "rung": outcome.patch.rung}


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.network
@pytest.mark.timeout(3600)
@pytest.mark.skipif("SWE_SDK_OPENSANDBOX_TASKS" not in os.environ, reason="takes a quarter of an hour")
def test_eight_tasks_of_verified_are_worth_the_same(osb_server: Server, tmp_path: Path) -> None:
    rows = (shared_dir() / "datasets" / "swebench_sdist" / "tasks_py311.jsonl").read_text().splitlines()
    chosen = [row for row in rows if json.loads(row)["instance_id"] in EIGHT]
    assert len(chosen) == len(EIGHT)
    (tmp_path / "tasks.jsonl").write_text("\n".join(chosen) + "\n")
    for patches in _PATCHES:
        here, there = [_grade(tmp_path, osb_server, patches, provider) for provider in ("opensandbox", "docker")]
        assert here == there
        assert {told["status"] for told in here.values()} == {"resolved" if patches == "gold" else "unresolved"}


def _grade(folder: Path, server: Server, patches: str, provider: str) -> dict[str, Any]:
    """Outcomes by task, without what differs from one grade to the next."""
    output = folder / f"{provider}-{patches}.jsonl"
    settings = {
        "SWE_SDK_STATE": str(server.home / "state"),
        "SWE_SDK_RESULTS": str(folder / f"results-{provider}"),
        "SWE_SDK_BASE_IMAGE": debian_image(),
        "OPEN_SANDBOX_DOMAIN": server.domain,
        "SWE_SDK_OPENSANDBOX_NETWORK": "open",
    }
    command = [sys.executable, "-m", "swe_sdk", "grade", str(folder / "tasks.jsonl"), "--patches", patches]
    command += ["--provider", provider, "--workers", "2", "--output", str(output)]
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-3000:]
    outcomes = [json.loads(line) for line in output.read_text().splitlines()]
    kept = ("status", "reward", "mask", "tests")
    return {
        one["instance_id"]: {**{name: one[name] for name in kept}, "rung": one["patch"]["rung"]} for one in outcomes
    }
