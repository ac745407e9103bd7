from __future__ import annotations

from pathlib import Path

import pytest

from swe_sdk.errors import SandboxError
from swe_sdk.executors.mirror import bring, listing, piece

pytestmark = pytest.mark.anyio


async def test_what_is_new_is_brought_and_nothing_else_is_touched(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    asked: list[tuple[str, int]] = []

    async def fetch(name: str, offset: int, length: int) -> bytes:
        asked.append((name, offset))
        return piece(there / name, offset, length)

    async def mirror() -> None:
        await bring(listing(there, ["events", "rollouts/a"]), here, fetch)

    for name, text in {
        "events/one": "1\n",
        "rollouts/a/1/log": "log",
        "rollouts/b/1/log": "b",
        "events/.half": "x",
    }.items():
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        (there / name).write_text(text)
    (here / "events").mkdir(parents=True)
    (here / "events/ours").write_text("ours")
    await mirror()
    with (there / "events/one").open("a") as file:
        file.write("2\n")
    await mirror()
    (there / "rollouts/a/1/log").write_text("lo")
    await mirror()
    found = {path.relative_to(here).as_posix(): path.read_text() for path in here.rglob("*") if path.is_file()}
    assert found == {"events/one": "1\n2\n", "events/ours": "ours", "rollouts/a/1/log": "lo"}
    assert asked == [("events/one", 0), ("rollouts/a/1/log", 0), ("events/one", 2), ("rollouts/a/1/log", 0)]


async def test_a_node_cannot_write_outside_of_the_folder(tmp_path: Path) -> None:
    async def fetch(name: str, offset: int, length: int) -> bytes:
        return b"x" * length

    for name in ("../outside", "/outside", "a/../../outside"):
        with pytest.raises(SandboxError, match="outside of its folder"):
            await bring({name: 1}, tmp_path / "here", fetch)
    assert not (tmp_path / "outside").exists()


async def test_a_file_that_goes_meanwhile_is_left_out(tmp_path: Path) -> None:
    async def fetch(name: str, offset: int, length: int) -> bytes:
        return piece(tmp_path / "there" / name, offset, length)

    await bring({"gone": 5}, tmp_path / "here", fetch)
    assert (tmp_path / "here/gone").read_bytes() == b""
    assert listing(tmp_path / "nowhere", ["events"]) == {}
