"""Which of a trainer's servers take part in checkpoints."""

from __future__ import annotations

from collections.abc import Mapping

import anyio

from swe_sdk.server.control.client import HttpParticipant, NotAParticipant


async def find_participants(servers: Mapping[str, HttpParticipant]) -> dict[str, HttpParticipant]:
    """Those of these servers that have control routes, by their names, in their order.

    One that does not answer within a minute, or refuses the token, is an error (``CheckpointError``) and not left out:
    a checkpoint without it would be half of one.
    """
    found: set[str] = set()
    failures: list[Exception] = []

    async def probe(name: str) -> None:
        try:
            await servers[name].status()
            found.add(name)
        except NotAParticipant:
            return
        except Exception as error:  # noqa: BLE001  raised below, and not as a group
            failures.append(error)

    async with anyio.create_task_group() as tasks:
        for name in servers:
            tasks.start_soon(probe, name)
    if failures:
        raise failures[0]
    return {name: one for name, one in servers.items() if name in found}
