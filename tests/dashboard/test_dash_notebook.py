"""``run.dashboard()``: a frame onto a server in the kernel's own process."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import swe_sdk as swe
from benchmarks.made_up_store import MadeUp
from swe_sdk.dashboard import in_notebook

Opened = Callable[..., Page]


@pytest.fixture
def run(store: tuple[Path, MadeUp]) -> Iterator[swe.Run]:
    with swe.open_run(store[0] / store[1].live_run) as opened:
        yield opened
    in_notebook.stop_all()


def _source(html: str) -> str:
    found = re.search(r'<iframe src="([^"]+)"', html)
    assert found is not None
    return unescape(found[1])


def test_a_cell_shows_the_run(run: swe.Run, open_page: Opened) -> None:
    frame = run.dashboard(height=600)
    url = _source(frame._repr_html_())
    page = open_page(url)
    expect(page.locator("h1")).to_have_text("Rollouts")
    expect(page.locator(".scope")).to_contain_text(run.path.name)
    page.keyboard.press("]")
    expect(page.locator(".pager")).to_contain_text("51 to 100")
    again = run.dashboard()
    assert again.url == frame.url, "one server for each directory"


def test_behind_a_hub_the_token_decides(run: swe.Run) -> None:
    frame = in_notebook.frame(run.path, environ={"JUPYTERHUB_SERVICE_PREFIX": "/user/me/"})
    path = re.fullmatch(r"/user/me/proxy/(\d+)/\?(.*)&token=(.*)", frame.url)
    assert path is not None, frame.url
    request = urllib.request.Request(f"http://127.0.0.1:{path[1]}/?token={path[3]}", headers={"Host": "hub.example"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.status == 200
        assert b"<h1>" in answer.read()
    request = urllib.request.Request(f"http://127.0.0.1:{path[1]}/?token=x", headers={"Host": "hub.example"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert "/login" in answer.url, "and nobody looks without it"


def test_a_kernel_that_ends_does_not_wait_for_it(store: tuple[Path, MadeUp]) -> None:
    program = (
        "import sys, swe_sdk as swe; run = swe.open_run(sys.argv[1]); print(run.dashboard()._repr_html_());"
        "assert 'panel' in sys.modules"
    )
    command = [sys.executable, "-W", "error", "-c", program, str(store[0] / store[1].live_run)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert (done.returncode, done.stderr) == (0, "")
    assert "<iframe" in done.stdout


def test_the_package_does_not_load_panel() -> None:
    program = (
        "import sys, swe_sdk as swe; swe.Run; swe.open_run; print([m for m in ('panel', 'bokeh') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr
