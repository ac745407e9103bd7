"""The server of the dashboard."""

from __future__ import annotations

import errno
import logging
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import panel as pn
from tornado.web import ErrorHandler

from swe_sdk.dashboard.access import Access, is_loopback, new_token, own_names
from swe_sdk.dashboard.app import application
from swe_sdk.dashboard.crowds import IDLE_S, allow_many_files, keep_room
from swe_sdk.dashboard.downloads import patterns
from swe_sdk.dashboard.hub import Hub
from swe_sdk.errors import InputError
from swe_sdk.store.follow import Told

DEFAULT_PORT = 5006
_OWN_ORIGIN = "127.0.0.1"
_UNUSED_S = 15
_KEEP_ALIVE_MS = 20_000
_CLOSED = (r"autoload\.js", "metadata", "components/.*")
"""Routes that Panel brings along and no page needs: the first gives a session to pages of any other site, the last
imports whatever module it is asked for, and asks nobody who they are."""


class Place(NamedTuple):
    """Where a dashboard listens. ``token`` None: whoever reaches it may look. ``origins``: further ``host[:port]``."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    """0 takes a free one."""
    prefix: str = ""
    """The path under which a proxy shows it, where the proxy leaves it in what it asks for."""
    token: str | None = None
    origins: tuple[str, ...] = ()

    def checked(self) -> Place:
        """With a token wherever one is needed; ``InputError`` for what cannot be meant."""
        if "*" in self.origins and self.token is None:
            return self._replace(token=new_token()).checked()
        if self.token is None and not is_loopback(self.host):
            return self._replace(token=new_token()).checked()
        if not 0 <= self.port < 65536:
            raise InputError(f"there is no port {self.port}", remedy="give one from 1 to 65535, or 0 for a free one")
        prefix = f"/{self.prefix.strip('/')}" if self.prefix.strip("/") else ""
        return self._replace(prefix=prefix)


class Dashboard:
    """A dashboard that listens. Made in the thread whose event loop runs it; :meth:`stop` may be called from there."""

    def __init__(self, root: Path, place: Place, told: Told | None = None) -> None:
        """Open the runs below ``root`` and listen; ``told`` hears how far the first look at them is.

        Raises ``InputError`` where either cannot be.
        """
        self.place = place.checked()
        self.hub = Hub(root, told)
        try:
            self._server = _listen(self.hub, self.place)
        except BaseException:
            self.hub.close()
            raise

    @property
    def url(self) -> str:
        """Where it can be opened on this machine, the token included."""
        host = "127.0.0.1" if self.place.host in ("0.0.0.0", "::", "") else self.place.host  # noqa: S104
        host = f"[{host}]" if ":" in host else host
        token = f"?token={quote(self.place.token)}" if self.place.token else ""
        return f"http://{host}:{self.port}{self.place.prefix}/{token}"

    @property
    def port(self) -> int:
        """The one that it has, where it was free to choose."""
        return int(self._server.port)

    def run(self, on_ready: Callable[[], None]) -> signal.Signals:
        """Serve until SIGINT or SIGTERM, and return which it was; must run in the main thread."""
        allow_many_files()
        told: list[signal.Signals] = []
        loop = self._server.io_loop

        def stop(number: signal.Signals) -> None:
            told.append(number)
            loop.stop()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.asyncio_loop.add_signal_handler(number, stop, number)
        self.start()
        on_ready()
        try:
            loop.start()
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.asyncio_loop.remove_signal_handler(number)
            self.stop()
        return told[0] if told else signal.SIGTERM

    def start(self) -> None:
        """Answer from now on, as long as the event loop runs."""
        self._server.start()

    def stop(self) -> None:
        """Hang up, and close the index. A second call does nothing."""
        try:
            self._server.stop(wait=False)
        except AssertionError:  # bokeh's, of a server that was stopped already
            return
        self.hub.close()


def _listen(hub: Hub, place: Place) -> Any:
    logging.getLogger("bokeh").setLevel(logging.WARNING)
    logging.getLogger("bokeh.server.views.ws").setLevel(logging.ERROR)  # a tab that was closed is no event
    logging.getLogger("tornado.access").setLevel(logging.ERROR)  # a refused host is no event
    names = [*own_names(place.host), *(origin.lower() for origin in place.origins)]
    access = Access(place.token, names, [origin.lower() for origin in place.origins])
    try:
        server = pn.io.server.get_server(
            {"/": lambda: application(hub)},
            port=place.port,
            address=place.host,
            websocket_origin=_OWN_ORIGIN,
            title="swe_sdk",
            warm=True,
            prefix=place.prefix,
            auth_provider=access,
            sign_sessions=True,  # a socket is for who was given the page
            include_headers=[],  # else they are in the page, those cookies too that no script should read
            include_cookies=[],
            secret_key=new_token().encode(),
            extra_patterns=patterns(hub, access),
            unused_session_lifetime_milliseconds=_UNUSED_S * 1000,
            check_unused_sessions_milliseconds=_UNUSED_S * 500,
            keep_alive_milliseconds=_KEEP_ALIVE_MS,
            http_server_kwargs={"idle_connection_timeout": IDLE_S},
        )
    except OSError as error:
        raise _typed(error, place) from error
    keep_room(server._http)
    server._tornado._websocket_origins = set(names)  # its public argument takes no port but one
    closed = [(f"{place.prefix}/{route}", ErrorHandler, {"status_code": 404}) for route in _CLOSED]
    server._tornado.add_handlers(".*", closed)
    return server


def _typed(error: OSError, place: Place) -> InputError:
    if error.errno == errno.EADDRINUSE:
        why = f"port {place.port} of {place.host} is in use"
        return InputError(why, remedy="stop what listens there, or give --port another number (0: a free one)")
    if error.errno == errno.EACCES:
        return InputError(f"port {place.port} is for the administrator", remedy="give --port a number above 1023")
    return InputError(f"cannot listen at {place.host}: {error}", remedy="give --host an address of this machine")
