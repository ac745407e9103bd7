"""The files of a container that the engine itself opens before it starts it, looking for a user.

A program of a box may have put a pipe there, and had that frozen: the engine, as of 20.10 to 28, then waits for the
pipe's other end for ever, and holds the container so that nobody can remove it.
"""

from __future__ import annotations

from typing import Any

from swe_sdk.errors import CreateFailed
from swe_sdk.sandbox.providers.docker.engine import Engine

_FILES = ("/etc/passwd", "/etc/group")
_MOST_BYTES = 16 << 20
_LINK = 1 << 27
_NO_PLAIN_FILE = 1 << 31 | _LINK | 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19
"""``ModeType`` of the language Go, which is how the engine tells modes."""


async def require_readable(engine: Engine, container: str) -> None:
    """``CreateFailed`` where one of them is neither absent nor a plain file of a size that can be read."""

    def look(api: Any) -> list[str]:
        return [path for path in _FILES if not _is_readable(_stat(api, container, path))]

    odd = await engine.call("look at the users of a container", look)
    if odd:
        raise CreateFailed(
            f"{' and '.join(odd)} of the image or snapshot cannot be read as a file,"
            " as the engine must before it starts a container",
            remedy="put a plain file there",
        )


def _is_readable(stat: dict[str, Any] | None) -> bool:
    return stat is None or (not stat["mode"] & _NO_PLAIN_FILE and stat["size"] <= _MOST_BYTES)


def _stat(api: Any, container: str, path: str) -> dict[str, Any] | None:
    """What is there, by the engine's own way through links; None for nothing."""
    found = _head(api, container, path)
    if found is not None and found["mode"] & _LINK:
        return _head(api, container, found["linkTarget"])  # where all of the links end
    return found


def _head(api: Any, container: str, path: str) -> dict[str, Any] | None:
    """``HEAD /containers/ID/archive``, for which docker-py has no method: it opens no file."""
    from docker.utils import decode_json_header

    answer = api.head(api._url("/containers/{0}/archive", container), params={"path": path}, timeout=api.timeout)
    if answer.status_code == 404:
        return None
    api._raise_for_status(answer)
    stat: dict[str, Any] = decode_json_header(answer.headers["X-Docker-Container-Path-Stat"])
    return stat
