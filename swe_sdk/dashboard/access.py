"""Who may see the dashboard: this machine, or whoever knows the token.

A page that a browser was tricked into (another site whose name leads to this machine) is told apart by the ``Host``
that it asks for; only names that were allowed get anything. A token is compared in constant time, and kept by the
browser in a cookie that scripts cannot read.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Callable
from typing import Any

from bokeh.server.auth_provider import AuthProvider
from bokeh.server.util import check_allowlist
from tornado.web import HTTPError, RequestHandler

from swe_sdk.dashboard.escape import text

_LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
_COOKIE_DAYS = 30


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def new_token() -> str:
    """One that nobody guesses."""
    return secrets.token_urlsafe(24)


def own_names(host: str) -> list[str]:
    """The ``host:port`` by which a browser may know this server, in bokeh's patterns: a tunnel has any port."""
    names = [f"{name}:*" for name in _LOCAL_NAMES]
    shown = f"[{host}]" if ":" in host else host
    return names if is_loopback(host) or host in ("0.0.0.0", "::", "") else [*names, f"{shown}:*"]  # noqa: S104


class Access(AuthProvider):
    """Bokeh asks it for every page, socket and file. ``names`` may hold ``*``: then the token alone decides."""

    def __init__(self, token: str | None, names: list[str], cookie: str) -> None:
        self.token, self.names, self.cookie = token, names, cookie
        super().__init__()

    def allows(self, handler: RequestHandler) -> bool:
        """Whether a request may be answered. Raises ``HTTPError`` 403 for a host that was not allowed."""
        self.check_host(handler)
        if self.token is None:
            return True
        shown = handler.get_query_argument("token", None)
        if shown is not None and self.is_token(shown):
            self.remember(handler)
            return True
        return self.is_token(handler.get_cookie(self.cookie) or "")

    def is_token(self, shown: str) -> bool:
        """Compared in constant time."""
        return self.token is not None and hmac.compare_digest(shown.encode(), self.token.encode())

    def check_host(self, handler: RequestHandler) -> None:
        """Refuse names that were not allowed."""
        if not check_allowlist(handler.request.host.lower(), self.names):
            raise HTTPError(403, reason="Unknown host")

    def remember(self, handler: RequestHandler) -> None:
        """Let the browser show the token by itself from now on."""
        assert self.token is not None
        handler.set_cookie(
            self.cookie, self.token, expires_days=_COOKIE_DAYS, httponly=True, samesite="Strict", path="/"
        )

    # -- what bokeh asks for -----------------------------------------------------------------------------------------

    @property
    def get_user(self) -> Callable[[Any], str | None]:  # type: ignore[override]  # bokeh means its handlers
        """Somebody, or None for whoever has to log in."""
        return lambda handler: "viewer" if self.allows(handler) else None

    @property
    def login_url(self) -> str:
        """Where the token is asked for."""
        return "/login"

    @property
    def login_handler(self) -> type[RequestHandler]:
        """The page that asks for it."""
        access = self

        class Login(_Login):
            """For this server."""

            guard = access

        return Login


_LOGIN = """<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>swe_sdk dashboard</title>
<link rel="icon" href="data:,"><style>body{font:15px/1.5 system-ui,sans-serif;display:grid;place-items:center;
min-height:90vh;margin:0;background:Canvas;color:CanvasText;color-scheme:light dark}form{display:grid;gap:12px;
width:340px}input,button{font:inherit;padding:8px 10px}</style>
<form method="post" action="login"><h1>swe_sdk dashboard</h1><p>MESSAGE</p>
<input type="password" name="token" aria-label="token" autofocus required><button>open</button></form></html>"""
_ASK = "This dashboard asks for the token that was printed where it was started."


class _Login(RequestHandler):
    guard: Access

    def get(self) -> None:
        """Ask for the token."""
        self.guard.check_host(self)
        self._show(_ASK)

    def post(self) -> None:
        """Take it, and go to the dashboard."""
        self.guard.check_host(self)
        if self.guard.token is None or self.guard.is_token(self.get_body_argument("token", "")):
            if self.guard.token is not None:
                self.guard.remember(self)
            self.redirect("./")
        else:
            self.set_status(403)
            self._show("That is not the token.")

    def _show(self, message: str) -> None:
        self.set_header("Cache-Control", "no-store")
        self.write(_LOGIN.replace("MESSAGE", text(message)))
