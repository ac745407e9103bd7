"""Who may see it, by which name and under which path; and that it changes nothing."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from benchmarks.made_up_store import write_store
from swe_sdk import dashboard
from swe_sdk.errors import InputError
from tests.dashboard.conftest import Served, get

Opened = Callable[..., Page]


def test_other_names_of_this_machine_are_refused(served: Served) -> None:
    port = urlsplit(served.url).port
    assert get(served)[0] == 200
    assert get(served, Host=f"localhost:{port}")[0] == 200
    assert get(served, Host="localhost:6000")[0] == 200, "a tunnel may have another port"
    for path in ("/", "/export/runs.csv", "/files/raw?run=x&name=y"):
        assert get(served, path, Host=f"evil.example:{port}")[0] == 403, path


def test_a_socket_of_another_site_is_refused(served: Served) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": "bokeh, token",
    }
    assert get(served, "/ws", Origin="http://evil.example", **upgrade)[0] == 403


def test_a_socket_is_for_who_was_given_the_page(served: Served) -> None:
    """A session that somebody made up (bokeh's own default is to take any) gets no word of the runs."""
    place = urlsplit(served.url)
    made_up = (
        base64.urlsafe_b64encode(json.dumps({"session_id": "x", "session_expiry": 2**40}).encode()).decode().rstrip("=")
    )
    upgrade = (
        f"GET /ws HTTP/1.1\r\nHost: {place.netloc}\r\nOrigin: http://{place.netloc}\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        f"Sec-WebSocket-Protocol: bokeh, {made_up}\r\n\r\n"
    )
    with socket.create_connection((place.hostname or "", place.port or 0), timeout=20) as connection:
        connection.sendall(upgrade.encode())
        said = b""
        while more := connection.recv(4096):
            said += more
    assert b"ACK" not in said


def test_a_token_is_asked_for_and_kept(
    store: tuple[Path, object], serve_runs: Callable[..., Served], open_page: Opened
) -> None:
    served = serve_runs(store[0], "--token")
    bare = served.at().rstrip("?")
    for path in ("/export/runs.csv", "/files/raw?run=x&name=y"):
        assert get(served, path)[0] == 403, path
    status, headers, _body = get(served)
    assert (status, headers["Location"].partition("?")[0]) == (302, "./login")
    page = open_page(bare, wait=False)
    expect(page.get_by_label("token")).to_be_visible()
    page.get_by_label("token").fill(served.url.partition("token=")[2])
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Runs")
    page.wait_for_selector("body[data-ready]", state="attached")
    page = open_page(served.url)
    expect(page.locator("h1")).to_have_text("Runs")
    assert "token" not in page.url, "it does not stay where others read it"
    cookie = page.context.cookies()[0]
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Lax", "/")
    assert get(served, "/?token=wrong")[0] == 302
    assert get(served, "/login")[0] == 200


def test_a_dashboard_for_other_machines_has_a_token(tmp_path: Path, serve_runs: Callable[..., Served]) -> None:
    served = serve_runs(tmp_path, "--host", "0.0.0.0")
    assert "?token=" in served.url
    assert len(served.url.partition("token=")[2]) >= 32
    assert get(served)[0] == 302


def test_it_works_below_a_path(
    store: tuple[Path, object], serve_runs: Callable[..., Served], open_page: Opened
) -> None:
    served = serve_runs(store[0], "--prefix", "user/me/proxy")
    assert urlsplit(served.url).path == "/user/me/proxy/"
    page = open_page(served.at("view=rollouts"))
    page.keyboard.press("]")
    expect(page.locator(".pager")).to_contain_text("51 to 100")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert download.value.suggested_filename == "rollouts.csv"


def test_a_port_that_is_taken_is_bad_input(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "swe_sdk", "dashboard", str(tmp_path), "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"port {port} of 127.0.0.1 is in use" in done.stderr
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_it_stops_when_it_is_told_to(tmp_path: Path, number: signal.Signals, code: int) -> None:
    arguments = ["dashboard", str(tmp_path), "--port", "0"]
    program = (
        "import signal, sys; from swe_sdk.cli import main;"  # a shell's background programs ignore SIGINT
        f"signal.signal(signal.SIGINT, signal.default_int_handler); sys.exit(main({arguments!r}))"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "http://" in process.stdout.readline()
        process.send_signal(number)
        _out, said = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in said) == (code, False), said


def test_runs_are_not_changed(tmp_path: Path, serve_runs: Callable[..., Served], open_page: Opened) -> None:
    """Neither by the index, nor by any view: not a byte, not a time, and no directory need be writable."""
    root = tmp_path / "runs"
    write_store(root, runs=4, rollouts=60)
    before = _state(root)
    for path in (root, *root.rglob("*")):
        path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    try:
        served = serve_runs(root)
        for view in ("runs", "rollouts", "masks", "budgets", "checkpoints", "retention", "sandboxes"):
            page = open_page(served.at(f"view={view}"))
            assert page.locator(".problem").count() == 0, view
        assert _state(root) == before
        opened = [os.readlink(link) for link in Path(f"/proc/{served.process.pid}/fd").iterdir() if link.exists()]
        assert not [name for name in opened if name.startswith(str(root))], "no file of a run is held open"
    finally:
        for path in (root, *root.rglob("*")):
            path.chmod(path.stat().st_mode | stat.S_IWUSR)


def _state(root: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in (root, *root.rglob("*"))}


def test_nothing_here_can_write_a_run() -> None:
    for module in Path(dashboard.__file__).parent.rglob("*.py"):
        source = module.read_text("utf-8")
        assert "RunWriter" not in source, module
        assert "store.writer" not in source, module


def test_what_cannot_be_meant_is_refused() -> None:
    from swe_sdk.dashboard.server import Place

    with pytest.raises(InputError, match="no port 70000"):
        Place(port=70000).checked()
    assert Place(origins=("*",)).checked().token, "where any name will do, a token decides"
    assert Place(prefix="a/b/").checked().prefix == "/a/b"
