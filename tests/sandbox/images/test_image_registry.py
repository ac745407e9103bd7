"""Pulling from registries that are slow, busy, broken, or want to know who asks."""

from __future__ import annotations

import base64
import io
import json
import os
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.errors import ImageNotFound, PullFailed
from swe_sdk.sandbox.images.auth import Challenge, find_credentials
from swe_sdk.sandbox.images.manifest import resolve
from swe_sdk.sandbox.images.reference import parse_reference
from swe_sdk.sandbox.images.registry import Registry, Stopped, _retry_after_s
from swe_sdk.sandbox.images.settings import RegistrySettings, is_loopback
from tests.sandbox.images.conftest import running_registry
from tests.sandbox.images.faulty import FaultyRegistry, altered, cut, faulty_registry, passed, status
from tests.sandbox.images.oci import MadeImage, entry, layer

QUICK = RegistrySettings(backoff_s=0.01, attempts=4, read_timeout_s=5.0)
HASH = "$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a"
"""Of the password "secret"."""


@pytest.fixture
def faulty() -> Iterator[FaultyRegistry]:
    image = MadeImage([layer(entry("data", os.urandom(1_000_000)))], packing="")
    with faulty_registry(image) as server:
        yield server


@pytest.fixture
def docker_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return tmp_path / "config.json"


def pull(server: FaultyRegistry, settings: RegistrySettings = QUICK, stop: threading.Event | None = None) -> bytes:
    """The content of the image's one layer."""
    reference = parse_reference(server.name)
    registry = Registry(reference, settings, stop)
    image = resolve(registry, reference)
    target = io.BytesIO()
    registry.download(image.layers[0].digest, image.layers[0].size, target)
    return target.getvalue()


def blob_ranges(server: FaultyRegistry) -> list[str]:
    """Of the requests for the layer, the ranges that they asked for."""
    return [headers.get("Range", "") for path, headers in server.requests if "/blobs/" in path][1:]


def test_what_is_asked_for_comes(faulty: FaultyRegistry) -> None:
    assert pull(faulty) == faulty.largest
    assert {headers["Accept-Encoding"] for _path, headers in faulty.requests} == {"identity"}


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
def test_a_registry_that_is_busy_is_asked_again(faulty: FaultyRegistry, code: int) -> None:
    faulty.answers = [passed, status(code), status(code), status(code)]
    assert pull(faulty) == faulty.largest


def test_it_is_given_up_in_the_end(faulty: FaultyRegistry) -> None:
    faulty.always = status(503)
    with pytest.raises(PullFailed, match="4 attempts: 503"):
        pull(faulty)
    assert len(faulty.requests) == 4


def test_a_registry_says_when_to_come_back(faulty: FaultyRegistry) -> None:
    faulty.answers = [passed, status(429, Retry_After="1")]
    begin = time.monotonic()
    assert pull(faulty) == faulty.largest
    assert 1.0 <= time.monotonic() - begin < 4


def test_nobody_waits_longer_than_the_settings_say(faulty: FaultyRegistry) -> None:
    faulty.answers = [passed, status(429, Retry_After="3600")]
    assert pull(faulty, QUICK.model_copy(update={"longest_wait_s": 0.05})) == faulty.largest


def test_retry_after_is_a_number_or_a_date() -> None:
    assert _retry_after_s("7") == 7
    assert 8 < (_retry_after_s(formatdate(time.time() + 10, usegmt=True)) or 0) <= 10
    assert _retry_after_s(formatdate(time.time() - 10, usegmt=True)) == 0
    assert _retry_after_s("soon") is None
    assert _retry_after_s("") is None


def test_a_broken_download_goes_on_where_it_broke(faulty: FaultyRegistry) -> None:
    faulty.answers = [passed, cut(300_000), cut(300_000), status(503)]
    assert pull(faulty) == faulty.largest
    assert blob_ranges(faulty) == ["", "bytes=300000-", "bytes=600000-", "bytes=600000-"]


def test_a_registry_without_ranges_begins_again(faulty: FaultyRegistry) -> None:
    faulty.ranges = False
    faulty.answers = [passed, cut(300_000), cut(500_000)]
    assert pull(faulty) == faulty.largest


@pytest.mark.parametrize("ranges", [True, False])
def test_a_connection_that_never_gets_further_is_given_up(faulty: FaultyRegistry, ranges: bool) -> None:
    faulty.ranges = ranges
    faulty.answers = [passed, *(cut(0 if ranges else 1000) for _ in range(50))]
    with pytest.raises(PullFailed, match="attempts"):
        pull(faulty)
    assert len(blob_ranges(faulty)) <= 6


def test_another_content_is_not_taken(faulty: FaultyRegistry) -> None:
    faulty.answers = [passed, altered]
    assert pull(faulty) == faulty.largest
    faulty.answers = [passed, *[altered] * 50]
    with pytest.raises(PullFailed, match="another content"):
        pull(faulty)


def test_more_than_was_named_is_not_read(faulty: FaultyRegistry) -> None:
    registry = Registry(parse_reference(faulty.name), QUICK)
    digest = max(faulty.blobs, key=lambda key: len(faulty.blobs[key]))
    with pytest.raises(PullFailed, match="more than the 1,000 bytes"):
        registry.download(digest, 1000, io.BytesIO())
    with pytest.raises(PullFailed, match="more than 1,000 bytes"):
        registry.read(f"blobs/{digest}", ("*/*",), 1000)


def test_nobody_listens_at_all() -> None:
    begin = time.monotonic()
    reference = parse_reference("127.0.0.1:1/a/b")
    with pytest.raises(PullFailed, match=r"in 3 attempts.*is the registry reachable"):
        resolve(Registry(reference, QUICK), reference)
    assert time.monotonic() - begin < 5


def test_who_waits_no_longer_ends_it(faulty: FaultyRegistry) -> None:
    stop = threading.Event()
    faulty.always = status(503, Retry_After="60")
    threading.Timer(0.2, stop.set).start()
    begin = time.monotonic()
    with pytest.raises(Stopped):
        pull(faulty, stop=stop)
    assert time.monotonic() - begin < 5


def test_a_name_that_is_not_there(faulty: FaultyRegistry) -> None:
    reference = parse_reference(f"{faulty.host}/no/such:image")
    with pytest.raises(ImageNotFound, match="is its name right"):
        resolve(Registry(reference, QUICK), reference)


def test_a_token_for_nobody_in_particular(faulty: FaultyRegistry, docker_config: Path) -> None:
    faulty.token = "opensesame"
    assert pull(faulty) == faulty.largest
    asked = [path for path, _headers in faulty.requests if path.startswith("/token")]
    assert asked == ["/token?service=test&scope=repository%3Aa%2Fb%3Apull"]


def test_a_token_that_runs_out_is_renewed(faulty: FaultyRegistry, docker_config: Path) -> None:
    faulty.token = "first"

    def expire(_handler: object) -> bool:
        faulty.token = "second"
        return False

    faulty.answers = [expire]
    assert pull(faulty) == faulty.largest


def test_a_token_for_a_password(faulty: FaultyRegistry, docker_config: Path) -> None:
    faulty.token, faulty.user = "opensesame", ("me", "secret:with:colons")
    with pytest.raises(ImageNotFound, match="docker login"):
        pull(faulty)
    encoded = base64.b64encode(b"me:secret:with:colons").decode()
    docker_config.write_text(json.dumps({"auths": {faulty.host: {"auth": encoded}}}))
    assert pull(faulty) == faulty.largest


def test_a_token_for_another_token(faulty: FaultyRegistry, docker_config: Path) -> None:
    faulty.token = "opensesame"
    docker_config.write_text(json.dumps({"auths": {faulty.host: {"auth": "", "identitytoken": "long-lived"}}}))
    assert pull(faulty) == faulty.largest
    form = dict(next(form for path, form in faulty.requests if path.startswith("POST")))
    assert (form["grant_type"], form["refresh_token"]) == ("refresh_token", "long-lived")


def test_a_real_registry_with_a_password(tmp_path: Path, docker_config: Path) -> None:
    (tmp_path / "passwords").write_text(f"me:{HASH}\n")
    more = f"auth: {{htpasswd: {{realm: test, path: {tmp_path}/passwords}}}}"
    with running_registry(tmp_path, more, ("me", "secret")) as live:
        name = live.push("private/image", MadeImage([layer(entry("x", b"x"))]))
        reference = parse_reference(name)
        with pytest.raises(ImageNotFound, match="docker login"):
            resolve(Registry(reference, QUICK), reference)
        docker_config.write_text(json.dumps({"auths": {live.host: {"auth": base64.b64encode(b"me:secret").decode()}}}))
        assert len(resolve(Registry(reference, QUICK), reference).layers) == 1


def test_a_redirect_is_followed_and_told_nothing(faulty: FaultyRegistry, docker_config: Path) -> None:
    faulty.token = "opensesame"
    blobs = MadeImage([layer(entry("data", faulty.largest))])
    with faulty_registry(blobs) as storage:
        storage.blobs = faulty.blobs

        def redirect(handler: object) -> bool:
            path = handler.path  # type: ignore[attr-defined]
            where = f"http://localhost:{storage.server_address[1]}{path}"
            handler.reply(307, b"", {"Location": where})  # type: ignore[attr-defined]
            return True

        faulty.answers = [passed, redirect]
        assert pull(faulty) == faulty.largest
        assert [headers.get("Authorization") for _path, headers in storage.requests] == [None]


@pytest.mark.parametrize(
    "content", ["", "no json", "[]", '{"auths": []}', '{"auths": {"h": null}}', '{"auths": {"h": {}}}']
)
def test_a_config_of_docker_that_says_nothing(docker_config: Path, content: str) -> None:
    docker_config.write_text(content)
    assert find_credentials("h") is None


def test_a_password_is_not_shown(docker_config: Path) -> None:
    docker_config.write_text(json.dumps({"auths": {"https://index.docker.io/v1/": {"auth": "bWU6c2VjcmV0"}}}))
    found = find_credentials("docker.io")
    assert found is not None
    assert (found.username, found.password) == ("me", "secret")
    assert "secret" not in repr(found)


def test_challenges() -> None:
    parsed = Challenge.parse('Bearer realm="https://auth.example/t",service=reg, scope="repository:a/b:pull,push"')
    assert parsed.scheme == "bearer"
    assert parsed.parameters == {
        "realm": "https://auth.example/t", "service": "reg", "scope": "repository:a/b:pull,push",
    }  # fmt: skip


@given(st.text(max_size=200))
def test_no_challenge_breaks_it(header: str) -> None:
    Challenge.parse(header)
    _retry_after_s(header)


def test_which_registries_are_spoken_to_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWE_SDK_INSECURE_REGISTRIES", "one:5000, two")
    settings = RegistrySettings()
    plain = ["localhost", "localhost:5000", "127.0.0.1:1", "127.9.9.9", "[::1]:5000", "one:5000", "two"]
    assert {settings.scheme(host) for host in plain} == {"http"}
    secret = ["one", "two:1", "example.com", "localhost.example.com:1", "128.0.0.1", "127.0.0.1.example.com", "[::2]"]
    assert {settings.scheme(host) for host in secret} == {"https"}
    assert not is_loopback("")
