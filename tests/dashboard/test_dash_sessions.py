"""One viewer's session, without a browser: what is made, what is sent, and what is not."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest

from swe_sdk.dashboard.escape import text
from swe_sdk.dashboard.hub import Hub, Rendered
from swe_sdk.dashboard.once import Once
from swe_sdk.dashboard.session import Viewer
from swe_sdk.dashboard.state import State
from swe_sdk.store import events as ev
from swe_sdk.store.writer import RunWriter


class _Hub:
    """Makes pages that take their time; ``number`` is the version of its store."""

    def __init__(self, takes_s: float = 0.0) -> None:
        self.takes_s, self.number = takes_s, 0
        self.made: list[str] = []

    def version(self, state: State) -> str:
        return str(self.number)

    def page(self, query: str) -> Rendered:
        time.sleep(self.takes_s)
        self.made.append(query)
        return Rendered(text(f"{query} {self.number}"), query, str(self.number))


class _Wire:
    """Keeps what would have been sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int, bool]] = []

    def send(self, page: Rendered, number: int, *, is_answer: bool) -> None:
        self.sent.append((str(page.html), number, is_answer))


def _viewer(hub: _Hub) -> tuple[Viewer, _Wire]:
    viewer, wire = Viewer(hub, ""), _Wire()  # type: ignore[arg-type]
    viewer.bridge = wire  # type: ignore[assignment]
    return viewer, wire


def _in_a_loop(work: Callable[[], Awaitable[None]]) -> None:
    """In a thread: that of the tests has the loop of the browser's driver, once there was one."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(anyio.run, work).result()


def test_a_browser_that_does_not_read_has_one_page_waiting() -> None:
    hub = _Hub()
    viewer, wire = _viewer(hub)

    async def main() -> None:
        for number in range(1, 50):
            hub.number = number
            await viewer.tick()
        assert [each[0] for each in wire.sent] == [" 1"]
        viewer.has_read()
        await viewer.tick()
        assert [each[0] for each in wire.sent] == [" 1", " 49"]

    _in_a_loop(main)


def test_whoever_asks_faster_than_pages_are_made_gets_the_last_one() -> None:
    hub = _Hub(takes_s=0.05)
    viewer, wire = _viewer(hub)
    hub.made.clear()

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for number in range(1, 40):
                group.start_soon(viewer.goto, f"q={number}", number)
                await anyio.sleep(0)
        assert wire.sent == [("q=39 0", 39, True)]
        assert len(hub.made) <= 3, "none of those that nobody waits for"
        await viewer.goto("q=1", 40)
        assert wire.sent[-1] == ("q=1 0", 40, True)

    _in_a_loop(main)


def test_what_is_on_its_way_to_an_older_question_is_not_sent() -> None:
    hub = _Hub(takes_s=0.05)
    viewer, wire = _viewer(hub)
    hub.number = 7

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(viewer.tick)
            await anyio.sleep(0.02)
            group.start_soon(viewer.goto, "q=new", 1)
        assert wire.sent == [("q=new 7", 1, True)]

    _in_a_loop(main)


# -- what is shared ----------------------------------------------------------------------------------------------------


def test_what_many_ask_for_at_once_is_made_once() -> None:
    once, made, begin = Once(), [], threading.Barrier(8)

    def make() -> int:
        made.append(1)
        time.sleep(0.05)
        return len(made)

    def ask(_number: int) -> int:
        begin.wait(10)
        return once("key", make)

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(ask, range(8))) == {1}
    assert once("key", make) == 1


def test_an_error_is_not_kept_and_old_things_are_forgotten() -> None:
    once, answers = Once(most=3), iter([OSError("gone"), 5])

    def make() -> int:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    with pytest.raises(OSError, match="gone"):
        once("key", make)
    assert once("key", make) == 5
    for number in range(100):
        once(number, lambda: 0)
    assert len(once) == 3


def test_one_page_is_made_for_all_who_look_at_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunWriter(tmp_path / "run", sync=False) as writer:
        writer.append(ev.RunStarted(name="run"))
    hub, made = Hub(tmp_path), []
    render = hub._render
    monkeypatch.setattr(hub, "_render", lambda state: (made.append(state), time.sleep(0.05), render(state))[-1])
    with ThreadPoolExecutor(6) as threads:
        pages = set(threads.map(hub.page, ["view=runs"] * 6))
    hub.close()
    assert (len(pages), len(made)) == (1, 1)


# -- what never fails --------------------------------------------------------------------------------------------------


def test_half_a_character_in_a_question_is_no_error(tmp_path: Path) -> None:
    hub = Hub(tmp_path)
    assert "\ud800" not in State.parse("q=\ud800&run=%ed%a0%80").query
    assert hub.page("view=rollouts&q=\ud800&run=\udfff").html
    hub.close()


def test_a_folder_that_the_disk_does_not_give_is_told_and_looked_for_again(tmp_path: Path) -> None:
    """A loop of links stands for what a network file system may say: stale, no permission, an error of the device."""
    with RunWriter(tmp_path / "run", sync=False) as writer:
        writer.append(ev.RunStarted(name="run"))
    hub = Hub(tmp_path)
    (tmp_path / "run" / "events").rename(tmp_path / "aside")
    (tmp_path / "run" / "events").symlink_to("events")
    time.sleep(0.6)  # it looks twice a second
    page = hub.page("view=runs")
    assert "cannot be read" in page.html
    assert hub.version(State.parse("view=runs")) == page.version, "nothing is sent again while it stays like that"
    (tmp_path / "run" / "events").unlink()
    (tmp_path / "aside").rename(tmp_path / "run" / "events")
    time.sleep(0.6)
    assert "cannot be read" not in hub.page("view=runs").html
    hub.close()
