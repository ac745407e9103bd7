"""The box of a probe: an accident is tried again, and what lasts is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from swe_sdk.errors import ProviderUnavailable, SandboxLost
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.trial import WORKS, require_works

pytestmark = pytest.mark.anyio
WELL = ExecResult(status="exited", exit_code=0, stdout_bytes=WORKS.encode())
KILLED = ExecResult(status="exited", exit_code=-9)
LOST = SandboxLost("it died")


def trials(*endings: ExecResult | Exception) -> Callable[[], Awaitable[ExecResult]]:
    left = list(endings)

    async def run() -> ExecResult:
        ending = left.pop(0)
        if isinstance(ending, Exception):
            raise ending
        return ending

    return run


@pytest.mark.parametrize("endings", [(WELL,), (KILLED, WELL), (LOST, WELL), (LOST, KILLED, WELL)])
async def test_two_accidents_are_forgiven(endings: tuple[ExecResult | Exception, ...]) -> None:
    await require_works(trials(*endings))


async def test_what_lasts_is_told() -> None:
    with pytest.raises(ProviderUnavailable, match="ended by SIGKILL"):
        await require_works(trials(LOST, LOST, KILLED, WELL))
    with pytest.raises(SandboxLost):
        await require_works(trials(KILLED, KILLED, LOST, WELL))
