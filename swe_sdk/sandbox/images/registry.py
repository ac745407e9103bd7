"""The distribution API of a registry (github.com/opencontainers/distribution-spec), as far as pulling takes it."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import BinaryIO

import requests
import urllib3

from swe_sdk.errors import ImageNotFound, PullFailed
from swe_sdk.sandbox.images.auth import Challenge, authorize, refused
from swe_sdk.sandbox.images.reference import ImageReference
from swe_sdk.sandbox.images.settings import RegistrySettings

_PIECE_BYTES = 1 << 20
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""What a registry answers that may answer otherwise in a moment."""


class Stopped(Exception):
    """Whoever wanted it is gone."""


class Registry:
    """One repository of a registry. Its methods block; any number of threads may call them.

    They raise ``PullFailed`` with what the registry said, and ``Stopped`` soon after ``stop`` is set.
    """

    def __init__(self, image: ImageReference, settings: RegistrySettings, stop: threading.Event | None = None) -> None:
        self._image = image
        self._settings = settings
        self._stop = stop or threading.Event()
        self._base = f"{settings.scheme(image.host)}://{image.host}/v2/{image.repository}"
        self._authorization: str | None = None

    def read(self, path: str, accept: tuple[str, ...], limit_bytes: int) -> tuple[bytes, str]:
        """A small object at ``manifests/...`` or ``blobs/...``, and its media type."""
        attempts = _Attempts(self._settings, self._stop, f"{path} of {self._image}")
        for _ in attempts:
            with attempts.noted(), self._get(path, {"Accept": ", ".join(accept)}) as response:
                data = bytearray()
                for piece in _pieces(response):
                    data += piece
                    if len(data) > limit_bytes:
                        raise PullFailed(f"{path} of {self._image} has more than {limit_bytes:,} bytes")
                return bytes(data), response.headers.get("Content-Type", "").partition(";")[0].strip()
        raise attempts.failure

    def download(
        self, digest: str, size: int, target: BinaryIO, on_bytes: Callable[[int], None] = lambda _count: None
    ) -> None:
        """Fill the empty file ``target`` with a blob of ``size`` bytes, checked against its digest as it comes.

        A connection that breaks is taken up where it broke, where the registry can (``Range``), else from the start.
        ``on_bytes`` hears of each piece how many bytes it has.
        """
        attempts = _Attempts(self._settings, self._stop, f"blobs/{digest} of {self._image}")
        check, most = _Check(digest, size), 0
        for _ in attempts:
            with attempts.noted(), self._get(f"blobs/{digest}", {}, offset=check.received) as response:
                if response.status_code != 206:
                    check = _Check(digest, size)
                    target.seek(0)
                    target.truncate()
                for piece in _pieces(response):
                    check.add(piece)
                    target.write(piece)
                    on_bytes(len(piece))
                    if check.received > most:  # or else a connection that always breaks there would never be given up
                        most = check.received
                        attempts.begin_anew()
                    if self._stop.is_set():
                        raise Stopped
                if check.is_complete:
                    return
                if check.received == size:
                    check = _Check(digest, size)
                    raise requests.ConnectionError("it came with another content")
        raise attempts.failure

    def _get(self, path: str, headers: dict[str, str], offset: int = 0) -> requests.Response:
        """The answer to one request, ``requests.RequestException`` where another attempt may help."""
        if offset:
            headers = {**headers, "Range": f"bytes={offset}-"}
        # what is compressed is so once: an encoding on the way would make another blob of it
        headers = {**headers, "Accept-Encoding": "identity", "User-Agent": "swe_sdk"}
        response = self._send(path, headers)
        if response.status_code == 401:
            challenge = Challenge.parse(response.headers.get("WWW-Authenticate", ""))
            response.close()
            image = self._image
            self._authorization = authorize(challenge, image.registry, image.repository, self._settings)
            response = self._send(path, headers)
        if response.status_code in (200, 206):
            return response
        with response:
            raise self._refusal(response, path)

    def _send(self, path: str, headers: dict[str, str]) -> requests.Response:
        authorization = self._authorization

        def sign(request: requests.PreparedRequest) -> requests.PreparedRequest:
            if authorization is not None:
                request.headers["Authorization"] = authorization
            return request  # as `auth`, so that a .netrc is not asked, and another host is not told

        timeout = (self._settings.connect_timeout_s, self._settings.read_timeout_s)
        try:
            return requests.get(f"{self._base}/{path}", headers=headers, auth=sign, timeout=timeout, stream=True)
        except requests.ConnectionError as error:
            raise _Unreachable(error) from error

    def _refusal(self, response: requests.Response, path: str) -> Exception:
        status, image = response.status_code, self._image
        if status in _PASSING:
            return requests.HTTPError(f"{status} {response.reason}", response=response)
        if status == 404:
            return ImageNotFound(
                f"there is no image {image} in its registry ({path} is not there)", remedy="is its name right?"
            )
        if status in (401, 403):
            return refused(image.registry, image.repository)
        return PullFailed(f"the registry {image.registry} answered {status} {response.reason} for {path}")


class _Unreachable(requests.ConnectionError):
    """Nobody answers under that name."""


class _Attempts:
    """A loop of attempts with growing pauses between them; ``failure`` says why it ended."""

    def __init__(self, settings: RegistrySettings, stop: threading.Event, what: str) -> None:
        self._settings = settings
        self._stop = stop
        self._what = what
        self._failed = 0
        self._unreachable = 0
        """How often in a row nobody answered at all."""
        self._error: requests.RequestException | None = None

    def __iter__(self) -> Iterator[int]:
        while self._failed < self._settings.attempts and self._unreachable < self._settings.attempts_to_reach:
            if self._failed and self._stop.wait(self._pause_s()):
                raise Stopped
            yield self._failed

    @contextmanager
    def noted(self) -> Iterator[None]:
        """One attempt: what may pass is noted, all else raised."""
        try:
            yield
            self._error = None  # the answer ended early, without a word
        except requests.RequestException as error:
            self._error = error
        self._failed += 1
        self._unreachable = self._unreachable + 1 if isinstance(self._error, _Unreachable) else 0

    def begin_anew(self) -> None:
        """It gets on."""
        self._failed = 0

    @property
    def failure(self) -> PullFailed:
        """After the last attempt."""
        why = self._error or "the answers end too early"
        return PullFailed(
            f"{self._what} could not be fetched in {self._failed} attempts: {why}", remedy="is the registry reachable?"
        )

    def _pause_s(self) -> float:
        settings = self._settings
        response = self._error.response if self._error is not None else None
        asked = _retry_after_s(response.headers.get("Retry-After", "")) if response is not None else None
        grown = settings.backoff_s * 2.0 ** (self._failed - 1) * random.uniform(0.75, 1.25)
        return min(settings.longest_wait_s, grown if asked is None else max(asked, grown))


class _Check:
    """What has come of a blob."""

    def __init__(self, digest: str, size: int) -> None:
        algorithm, _, self._wanted = digest.partition(":")
        self._hash = hashlib.new(algorithm)
        self._size = size
        self.received = 0

    def add(self, piece: bytes) -> None:
        self._hash.update(piece)
        self.received += len(piece)
        if self.received > self._size:
            raise PullFailed(f"a blob has more than the {self._size:,} bytes that its image names")

    @property
    def is_complete(self) -> bool:
        return self.received == self._size and self._hash.hexdigest() == self._wanted


def _pieces(response: requests.Response) -> Iterator[bytes]:
    """The body as it was sent."""
    try:
        yield from response.raw.stream(_PIECE_BYTES, decode_content=False)
    except urllib3.exceptions.HTTPError as error:
        raise requests.ConnectionError(error) from error


def _retry_after_s(header: str) -> float | None:
    """Seconds to wait, from a number or a date (RFC 9110, 10.2.3)."""
    try:
        if header.strip().isdigit():
            return float(header)
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
