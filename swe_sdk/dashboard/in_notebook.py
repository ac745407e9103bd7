"""The dashboard in a notebook: a frame onto a server in the kernel.

One server for each directory, in a thread of its own, for as long as the kernel lives. Behind a JupyterHub the browser
does not reach the kernel's machine: its requests go through jupyter-server-proxy, by the path of the user's server, and
because the hub's name is not known here, a token stands in for it.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Mapping
from pathlib import Path

from swe_sdk.dashboard.access import new_token
from swe_sdk.dashboard.server import Dashboard, Place
from swe_sdk.dashboard.state import State
from swe_sdk.shown import Frame

_HUB = "JUPYTERHUB_SERVICE_PREFIX"
_START_CAP_S = 60.0
_servers: dict[Path, _Served] = {}
_lock = threading.Lock()


class _Served:
    """A server that runs in a thread of its own. ``pid`` is that of the process that has it."""

    def __init__(self, root: Path, place: Place) -> None:
        self.pid = os.getpid()
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self.shown: Dashboard | None = None
        self._thread = threading.Thread(target=self._run, args=(root, place), name="swe_sdk dashboard", daemon=True)
        self._thread.start()
        self._ready.wait(_START_CAP_S)
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Hang up."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_START_CAP_S)

    def _run(self, root: Path, place: Place) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self.shown = Dashboard(root, place)
            self.shown.start()
        except BaseException as error:  # noqa: BLE001  raised again in the thread that asked for it
            self._error = error
        finally:
            self._ready.set()
        if self.shown is not None:
            self._loop.run_forever()
            self.shown.stop()
        self._loop.close()


def frame(run_dir: Path, *, rollout: str = "", height: int = 800, environ: Mapping[str, str] = os.environ) -> Frame:
    """A run's dashboard for a cell; ``rollout`` opens it at that one. The server is started when it is first needed.

    Raises ``InputError`` where there is no such directory.
    """
    hub = environ.get(_HUB, "")
    served = _served(run_dir.absolute(), behind_hub=bool(hub))
    assert served.shown is not None
    view = "rollout" if rollout else "rollouts"
    query = State(view=view, run=(run_dir.name,), rollout=rollout).query
    token = served.shown.place.token
    base = f"{hub.rstrip('/')}/proxy/{served.shown.port}/" if hub else f"http://127.0.0.1:{served.shown.port}/"
    return Frame(f"{base}?{query}{f'&token={token}' if token else ''}", height)


def _served(root: Path, *, behind_hub: bool) -> _Served:
    with _lock:
        known = _servers.get(root)
        if known is None or known.pid != os.getpid():  # a forked kernel has no thread of its parent
            place = Place(port=0, token=new_token() if behind_hub else None, origins=("*",) if behind_hub else ())
            if not _servers:
                atexit.register(stop_all)
            known = _servers[root] = _Served(root, place)
        return known


def stop_all() -> None:
    """Stop all servers of this process."""
    with _lock:
        for served in _servers.values():
            if served.pid == os.getpid():
                served.stop()
        _servers.clear()
