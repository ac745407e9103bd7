"""What somebody tries who has no business here: pages of other sites, other users of this machine, slow readers."""

from __future__ import annotations

import http.client
import os
import re
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from bokeh.util.token import get_token_payload
from playwright.sync_api import Page, expect

from swe_sdk.store import events as ev
from swe_sdk.store.writer import RunWriter
from tests.dashboard.conftest import Served, get

Opened = Callable[..., Page]
_UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol": "bokeh, token",
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, serve_runs: Callable[..., Served]) -> Served:
    """One run, with a file that was deleted since and one that is damaged; a token is asked for."""
    root = tmp_path_factory.mktemp("small")
    names = {"rollout_id": "a__b-1.0", "attempt": 1}
    with RunWriter(root / "run", sync=False) as writer:
        writer.append(ev.RolloutQueued(rollout_id="a__b-1.0", instance_id="a__b-1"))
        writer.append(ev.AttemptStarted(**names))
        gone = writer.save("gone.log", b"x" * 100, role="log", **names)
        writer.save("damaged.log", b"".join(b"%d\n" % n for n in range(2_000_000)), role="log", **names)
    (root / "run" / gone.path).unlink(missing_ok=True)
    for path in (root / "run").rglob("damaged.log*"):
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))
    return serve_runs(root, "--token")


def _token(served: Served) -> str:
    return served.url.partition("token=")[2]


# -- other pages -------------------------------------------------------------------------------------------------------


def test_a_page_of_another_port_of_this_machine_opens_no_socket(served: Served) -> None:
    """Cookies and sites know no ports: only the origin tells somebody else's notebook from this dashboard."""
    place = urlsplit(served.url)
    assert get(served, "/ws", Origin=f"http://{place.hostname}:9", **_UPGRADE)[0] == 403
    assert get(served, "/ws", Origin="null", **_UPGRADE)[0] == 403
    assert get(served, "/export/runs.csv", Origin=f"http://{place.hostname}:9")[0] == 403
    assert get(served, "/export/runs.csv", Origin=f"http://{place.netloc}")[0] == 200
    assert get(served, "/ws", Origin=f"http://{place.netloc}", **_UPGRADE)[0] == 101


@pytest.mark.parametrize(
    "path", ["/autoload.js?bokeh-autoload-element=x", "/metadata", "/components/antigravity/x/__css__/y"]
)
def test_what_no_page_needs_is_not_there(served: Served, path: str) -> None:
    """Panel's own routes: one gives sessions to any site, one imports any module for anybody."""
    status, headers, _body = get(served, path, Origin=served.at().rstrip("/?"))
    assert status == 404
    assert "Access-Control-Allow-Origin" not in headers


def test_no_cookie_and_no_header_is_in_the_page(small: Served) -> None:
    """Scripts cannot read the cookie; those of other programs on this host come along as well."""
    _status, headers, _body = get(small, f"/?token={_token(small)}")
    cookie = headers["Set-Cookie"].partition(";")[0]
    status, _headers, body = get(small, "/?view=runs", Cookie=f"{cookie}; jupyter=hunter2", Authorization="hunter3")
    assert status == 200
    (session,) = set(re.findall(r'"token":\s*"([^"]+)"', body))
    told = str(get_token_payload(session))
    for secret in ("hunter2", "hunter3", _token(small)):
        assert secret not in body
        assert secret not in told


# -- the token ---------------------------------------------------------------------------------------------------------


def test_the_token_leaves_the_address_at_once(small: Served) -> None:
    status, headers, _body = get(small, f"/?view=masks&token={_token(small)}&run=x%26y")
    assert status == 302
    assert headers["Location"] == f"./?{urlencode({'view': 'masks', 'run': 'x&y'})}"
    assert "path" not in headers["Set-Cookie"].lower(), "the browser takes the path of the request, behind a proxy too"
    assert get(small, f"/?token={_token(small)}x")[1]["Location"].startswith("./login")
    assert get(small, "/?token=%ff%fe")[0] in (302, 400)


def test_two_dashboards_of_one_host_keep_their_cookies_apart(small: Served, serve_once: Callable[..., Served]) -> None:
    other = serve_once(small.root, "--token")
    names = [get(each, f"/?token={_token(each)}")[1]["Set-Cookie"].partition("=")[0] for each in (small, other)]
    assert names[0] != names[1]


def test_nothing_but_a_login_is_given_without_the_token(small: Served) -> None:
    place = urlsplit(small.url)
    for path in ("/", "/?view=rollouts", "/export/rollouts.csv", "/files/raw?run=run&rollout=a__b-1.0&name=gone.log"):
        status, _headers, body = get(small, path)
        assert status in (302, 403), path
        assert "a__b" not in body
    assert get(small, "/ws", Origin=f"http://{place.netloc}", **_UPGRADE)[0] == 403


def test_a_link_from_another_site_needs_no_second_login(
    small: Served, serve_once: Callable[..., Served], open_page: Opened
) -> None:
    """As in a chat: the browser keeps a strict cookie back where another site led it here. And a path without its
    slash, as people type it, leads to the same page."""
    below = serve_once(small.root, "--token", "--prefix", "user/me")
    page = open_page("about:blank", wait=False)
    for number, target in enumerate((small.url, below.url, below.url.replace("/user/me/?", "/user/me?"))):
        page.set_content(f"<a href='{target}'>here</a>")
        page.get_by_role("link", name="here").click()
        expect(page.locator("h1")).to_have_text("Runs")
        assert "token" not in page.url, number
        page.context.clear_cookies()


# -- files that are not what the journal says --------------------------------------------------------------------------


def _file(small: Served, name: str) -> str:
    pairs = {"run": "run", "rollout": "a__b-1.0", "attempt": 1, "name": name, "token": _token(small)}
    return f"/files/raw?{urlencode(pairs)}"


def test_a_file_that_is_gone_is_not_found(small: Served) -> None:
    assert get(small, _file(small, "gone.log"))[0] == 404


def test_a_damaged_file_does_not_look_whole(small: Served) -> None:
    try:
        status, _headers, _body = get(small, _file(small, "damaged.log"))
    except (http.client.IncompleteRead, ConnectionError):
        return
    assert status == 404


# -- many, and slow ----------------------------------------------------------------------------------------------------


@contextmanager
def _soft_limit(files: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files if hard == resource.RLIM_INFINITY else min(files, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def _idle(served: Served, number: int) -> Iterator[None]:
    """Connections that have begun to ask for something, and go no further."""
    place = urlsplit(served.url)
    with ExitStack() as stack:
        for _number in range(number):
            each = stack.enter_context(socket.create_connection((place.hostname or "", place.port or 0), timeout=20))
            each.sendall(b"GET / HTTP/1.1\r\n")
        yield


def test_many_connections_are_no_trouble(tmp_path: Path, serve_once: Callable[..., Served]) -> None:
    """The limit that shells give to programs is not the one that the system has."""
    with _soft_limit(256):
        served = serve_once(tmp_path)
    with _soft_limit(4096), _idle(served, 1500):
        begin = time.monotonic()
        assert get(served)[0] == 200
        assert time.monotonic() - begin < 10


def test_more_connections_than_files_keep_nobody_out_for_long(
    tmp_path: Path, serve_once: Callable[..., Served], open_page: Opened
) -> None:
    """Whoever looks already is served on, and the machine has other things to do as well."""
    served = serve_once(tmp_path)
    page = open_page(served.at())
    opened = len(list(Path(f"/proc/{served.process.pid}/fd").iterdir()))
    resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (opened + 100, opened + 100))
    with _idle(served, 150):
        before, begin = _cpu_s(served), time.monotonic()
        with RunWriter(tmp_path / "later", sync=False) as writer:
            writer.append(ev.RunStarted(name="later"))
        expect(page.locator("table[aria-label=runs] tbody tr")).to_have_count(1, timeout=10_000)
        time.sleep(2)
        assert _cpu_s(served) - before < 0.6 * (time.monotonic() - begin)
    assert get(served)[0] == 200


def _cpu_s(served: Served) -> float:
    fields = Path(f"/proc/{served.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_page_goes_on_after_its_browser_was_away(small: Served, open_page: Opened) -> None:
    """What is sent is counted as arrived, however much that is: the next change is shown."""
    page = open_page(small.url)
    rows = page.locator("table[aria-label=runs] tbody tr")
    expect(rows).to_have_count(1)
    for number in range(3):
        with RunWriter(small.root / f"later-{number}", sync=False) as writer:
            writer.append(ev.RunStarted(name=f"later-{number}"))
        expect(rows).to_have_count(2 + number, timeout=8000)
