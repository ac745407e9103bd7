"""HTTP between the servers of an episode."""

from __future__ import annotations

import socket
import ssl
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.parse import urlsplit

import httpx

from swe_sdk.errors import InputError

CONNECT_TIMEOUT_S = 10.0
_KEEP_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
]
"""Answers may take hours, so reading has no timeout: a peer whose machine is gone is noticed by the kernel."""


def open_client(url: str, **settings: Any) -> httpx.AsyncClient:
    """A client for one server, whose answers may take as long as they want."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"{url!r} is no URL of a server", remedy="give one such as http://127.0.0.1:8080")
    # reading the certificates of the machine takes some tenths of a second, and plain HTTP needs none
    verify = ssl.create_default_context() if parts.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    transport = httpx.AsyncHTTPTransport(
        verify=verify, limits=httpx.Limits(max_connections=None), socket_options=_KEEP_ALIVE
    )
    timeout = httpx.Timeout(None, connect=CONNECT_TIMEOUT_S)
    cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))  # one client serves many sessions
    base = url.rstrip("/")
    return httpx.AsyncClient(base_url=base, transport=transport, timeout=timeout, cookies=cookies, **settings)


def error_told(answer: httpx.Response) -> tuple[str, str]:
    """Code and detail of an answer of 400 and above, whose body has been read."""
    try:
        told = answer.json()["error"]
        remedy = told.get("remedy")
        return str(told["code"]), f"{told['detail']} ({remedy})" if remedy else str(told["detail"])
    except (ValueError, TypeError, KeyError, AttributeError):
        return "", f"status {answer.status_code}: {answer.text[:300]}"
