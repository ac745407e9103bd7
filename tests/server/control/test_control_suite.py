"""What holds of participants holds of them behind HTTP: the public suite, and whole runs that are killed at random.

``SWE_SDK_CONTROL_RUNS`` sets how many runs (6 by default).
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from swe_sdk.checkpoint.participant import Participant
from swe_sdk.testing import ParticipantCase, ParticipantSuite
from tests.checkpoint.test_random_runs import random_plan, run
from tests.server.control.over_http import connected, everything_over_http
from tests.testing.test_participant_suite import AgentCase, DiskCase, SandboxCase

RUNS = int(os.environ.get("SWE_SDK_CONTROL_RUNS", "6"))


class OverHttp(ParticipantCase):
    @asynccontextmanager
    async def control(self, participant: Participant) -> AsyncIterator[Participant]:
        async with connected(participant) as client:
            assert isinstance(client, Participant)
            yield client


class DiskOverHttp(OverHttp, DiskCase):
    pass


class AgentOverHttp(OverHttp, AgentCase):
    pass


class SandboxOverHttp(OverHttp, SandboxCase):
    pass


class TestDiskOverHttp(ParticipantSuite):
    def make_case(self) -> ParticipantCase:
        return DiskOverHttp()


class TestAgentOverHttp(ParticipantSuite):
    def make_case(self) -> ParticipantCase:
        return AgentOverHttp()


class TestSandboxesOverHttp(ParticipantSuite):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.place = tmp_path

    def make_case(self) -> ParticipantCase:
        return SandboxOverHttp(self.place)


@pytest.mark.parametrize("seed", range(RUNS))
def test_a_run_that_is_killed_at_random_comes_to_the_same(seed: int) -> None:
    with everything_over_http() as calls:
        universe = run(random_plan(seed))
    assert universe.saves
    assert calls.count > 50
