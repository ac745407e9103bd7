"""A worker that hangs is named by what has waited for it, since somebody has to end it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from swe_sdk.checkpoint import ResourcesParticipant
from swe_sdk.checkpoint.messages import ResumeRequest
from swe_sdk.checkpoint.participants import base
from swe_sdk.errors import CheckpointError
from swe_sdk.server.control.workers import Member
from tests.checkpoint.house import KeepsNothing
from tests.server.control.crews import commit, crew_of, in_real_time, in_time, prepare, resume


class _Hangs(ResourcesParticipant):
    """As one that was stopped with SIGSTOP while a checkpoint was open."""

    async def _settle(self) -> None:
        await anyio.sleep_forever()


def _second_hangs(member: Member) -> Any:
    made = _Hangs if member.name == "w1" else ResourcesParticipant
    return made(hooks=KeepsNothing())


@in_real_time
async def test_a_resume_names_the_worker_that_does_not_answer(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "RESUME_S", 0.3)
        async with crew_of("resources", _second_hangs, tmp_path) as crew:
            await prepare(crew.hub)
            await commit(crew.hub, tmp_path)
            with pytest.raises(CheckpointError) as raised:
                await crew.hub.resume(ResumeRequest(checkpoint_id="c1", **in_time(0.3)))
            assert raised.value.code == "deadline_exceeded"
            assert "no answer of w1" in raised.value.detail
            assert "SIGKILL" in raised.value.remedy
            await crew.workers[1].kill()
            await resume(crew.hub)
            assert not crew.hub.is_closed
