from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from swe_sdk.executors.place import open_place

pytestmark = pytest.mark.anyio


class Kept:
    def __init__(self) -> None:
        self.opened = self.closed = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[int]:
        self.opened += 1
        async with anyio.create_task_group() as tasks:  # which only the task that opened it may close
            tasks.start_soon(anyio.sleep_forever)
            yield self.opened
            tasks.cancel_scope.cancel()
        self.closed += 1


async def test_what_is_kept_is_opened_once_and_closed_with_the_place() -> None:
    kept, values = Kept(), list[int]()
    async with open_place("node") as place:

        async def use() -> None:
            values.append(await place.keep("it", kept.open))

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(use)
        assert (values, kept.closed) == ([1] * 5, 0)
    assert (kept.opened, kept.closed) == (1, 1)


async def test_what_is_let_go_is_closed_then_and_opened_anew() -> None:
    kept = Kept()
    async with open_place("node") as place:
        await place.let_go("it")
        assert await place.keep("it", kept.open) == 1
        await place.let_go("it")
        assert kept.closed == 1
        assert await place.keep("it", kept.open) == 2
    assert kept.closed == 2


async def test_what_cannot_be_opened_is_the_error_of_who_asked_and_of_nobody_else() -> None:
    @asynccontextmanager
    async def broken() -> AsyncIterator[None]:
        raise OSError("on purpose")
        yield

    kept = Kept()
    async with open_place("node") as place:
        assert await place.keep("it", kept.open) == 1
        for _ in range(2):
            with pytest.raises(OSError, match="on purpose"):
                await place.keep("broken", broken)
        assert kept.closed == 0
    assert kept.closed == 1


async def test_a_folder_is_the_same_where_the_file_system_is_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWE_SDK_STATE", str(tmp_path / "state"))
    async with open_place("node") as place:
        assert place.folder("/runs/one") == Path("/runs/one")
    async with open_place("node", shared=False) as place:
        assert place.folder("/runs/one").is_relative_to(tmp_path / "state")
        assert place.folder("/runs/one") != place.folder("/runs/two")
