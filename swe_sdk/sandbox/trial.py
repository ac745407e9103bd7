"""The box by which a provider sees whether it works here: an accident says nothing of a machine, so it tries again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio

from swe_sdk.errors import ProviderUnavailable, SandboxError
from swe_sdk.model.exec_result import ExecResult

WORKS = "works\n"
"""What the program of a trial prints."""
_ATTEMPTS, _REST_S = 3, 0.1


async def require_works(run_in_new_box: Callable[[], Awaitable[ExecResult]]) -> None:
    """Have a program print :data:`WORKS` in a new box; the last of three attempts decides.

    ``SandboxError`` where there was no such box, ``ProviderUnavailable`` where the program came to something else.
    """
    for _attempt in range(_ATTEMPTS - 1):
        with suppress(SandboxError):
            if (await run_in_new_box()).stdout == WORKS:
                return
        await anyio.sleep(_REST_S)  # what a kill has hit may not be seen to be dead at once
    result = await run_in_new_box()
    if result.stdout != WORKS:
        raise ProviderUnavailable(f"a program in a box {result.summary}: {result.stderr.strip()}")
