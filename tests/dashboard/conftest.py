"""A real Chromium, a real server in a process of its own, and a store of some hundred rollouts.

Every page that a test opens fails it on an error in the browser's console, and on any request that leaves the machine.
"""

from __future__ import annotations

import http.client
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.made_up_store import MadeUp, write_store
from tests.shared import need_program

_ARGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_READY = "body[data-ready]"


class Served(NamedTuple):
    """A dashboard that runs."""

    url: str
    root: Path
    process: subprocess.Popen[str]

    def at(self, query: str = "") -> str:
        return f"{self.url.partition('?')[0]}?{query}"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Started here and not by a plugin: its event loop must be gone before other modules run theirs."""
    need_program("chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(_ARGS))
        yield launched
        launched.close()


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[Callable[..., Page]]:
    """Open a URL in a browser of its own, and wait until it is connected."""
    foreign: list[str] = []
    errors: list[str] = []
    contexts = []

    def opened(url: str, *, width: int = 1280, height: int = 800, wait: bool = True) -> Page:
        context = chromium.new_context(viewport={"width": width, "height": height}, accept_downloads=True)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: foreign.append(request.url) if _is_foreign(request.url) else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        page.goto(url)
        if wait:
            page.wait_for_selector(_READY, state="attached")
        return page

    opened.errors = errors  # type: ignore[attr-defined]
    yield opened
    for context in contexts:
        context.close()
    assert foreign == [], "the page asked other machines"
    assert errors == [], "the page had errors"


def _is_foreign(url: str) -> bool:
    return not url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:", "about:"))


def get(served: Served, path: str = "/", **headers: str) -> tuple[int, http.client.HTTPMessage, str]:
    """One request to a dashboard, as any program may make it: status, headers and text."""
    place = urlsplit(served.url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode("utf-8", "replace")
    connection.close()
    return answer.status, answer.headers, body


@pytest.fixture(scope="session")
def serve_runs() -> Iterator[Callable[..., Served]]:
    """Start ``swe-sdk dashboard`` on a directory, at a free port."""
    processes: list[subprocess.Popen[str]] = []

    def serve(root: Path, *options: str) -> Served:
        command = [sys.executable, "-m", "swe_sdk", "dashboard", str(root), "--port", "0", *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        processes.append(process)
        assert process.stdout is not None
        said = process.stdout.readline()
        assert "http://" in said, said
        return Served(said.rpartition(" ")[2].strip(), root, process)

    yield serve
    for process in processes:
        process.send_signal(signal.SIGTERM)
    for process in processes:
        process.wait(20)
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def serve_once(serve_runs: Callable[..., Served]) -> Iterator[Callable[..., Served]]:
    """The same, for one test: it ends with it."""
    started: list[Served] = []

    def serve(root: Path, *options: str) -> Served:
        started.append(serve_runs(root, *options))
        return started[-1]

    yield serve
    for each in started:
        each.process.send_signal(signal.SIGTERM)
        each.process.wait(20)


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, MadeUp]:
    """Six runs of 100 rollouts, as the generator makes them: one goes on, one was killed, one leaks a snapshot."""
    root = tmp_path_factory.mktemp("runs")
    return root, write_store(root, runs=6, rollouts=600, huge_log_bytes=3_000_000)


@pytest.fixture(scope="session")
def served(serve_runs: Callable[..., Served], store: tuple[Path, MadeUp]) -> Served:
    return serve_runs(store[0])
