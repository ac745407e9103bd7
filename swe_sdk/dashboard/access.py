"""Who may see the dashboard: this machine, or whoever knows the token.

A page that a browser was tricked into (another site whose name leads to this machine) is told apart by the ``Host``
that it asks for; only names that were allowed get anything. A page of another port of this machine (somebody else's
notebook, say) is told apart by the ``Origin`` that its browser names. A token is compared in constant time, and kept by
the browser in a cookie that scripts cannot read, for the path of the dashboard alone; it leaves the address at once.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from bokeh.server.auth_provider import AuthProvider
from bokeh.server.util import check_allowlist
from tornado.web import Finish, HTTPError, RequestHandler

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
    """Bokeh asks it for every page, socket and file. ``names`` may hold ``*``: then the token alone decides.

    ``origins`` are the names (``host[:port]``) by which browsers know it where a proxy asks it by another one.
    """

    def __init__(self, token: str | None, names: list[str], origins: list[str]) -> None:
        self.token, self.names, self.origins = token, names, origins
        super().__init__()

    @property
    def cookie(self) -> str:
        """Its name. Cookies of a host are for all of its ports: each token has one of its own."""
        return f"swe_sdk_dashboard_{hashlib.sha256((self.token or '').encode()).hexdigest()[:12]}"

    def allows(self, handler: RequestHandler) -> bool:
        """Whether a request may be answered. Raises ``HTTPError`` 403 for a host or an origin that was not allowed."""
        self.check_host(handler)
        self.check_origin(handler)
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

    def check_origin(self, handler: RequestHandler) -> None:
        """Refuse what pages of others ask for. Programs name no origin, nor do browsers for a link."""
        origin = handler.request.headers.get("Origin")
        if origin is None or urlsplit(origin).netloc.lower() == handler.request.host.lower():
            return
        if not check_allowlist(urlsplit(origin).netloc.lower(), self.origins):
            raise HTTPError(403, reason="Unknown origin")

    def remember(self, handler: RequestHandler) -> None:
        """Let the browser show the token by itself from now on, below the path of this request."""
        assert self.token is not None
        handler.set_cookie(  # not "Strict": who follows a link from a page of another site would have to log in again
            self.cookie, self.token, expires_days=_COOKIE_DAYS, httponly=True, samesite="Lax", path=""
        )

    def _user(self, handler: RequestHandler) -> str | None:
        if not self.allows(handler):
            return None
        request = handler.request
        is_page = "Upgrade" not in request.headers and request.path.endswith("/")
        if is_page and handler.get_query_argument("token", None) is not None:
            handler.redirect(f"./?{_without_token(request.query)}")
            raise Finish
        return "viewer"

    # -- what bokeh asks for -----------------------------------------------------------------------------------------

    @property
    def get_user(self) -> Callable[[Any], str | None]:  # type: ignore[override]  # bokeh means its handlers
        """Somebody, or None for whoever has to log in."""
        return self._user

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


def _without_token(query: str) -> str:
    return urlencode([pair for pair in parse_qsl(query) if pair[0] != "token"])


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
        self.guard.check_origin(self)
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
