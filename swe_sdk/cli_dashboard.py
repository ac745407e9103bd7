"""``swe-sdk dashboard``: look at runs in a browser."""

from __future__ import annotations

import argparse
import signal
import sys
import time
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swe_sdk import paths
from swe_sdk.errors import PrerequisiteError
from swe_sdk.files import read_token

if TYPE_CHECKING:
    from swe_sdk.dashboard.server import Dashboard

_QUIET_S = 1.0
_SAY_EVERY_S = 0.5
_SAY_IN_A_FILE_EVERY_S = 5.0


def add_dashboard_command(commands: Any) -> None:
    """Add it to the subparsers of ``swe-sdk``."""
    add = commands.add_parser(
        "dashboard",
        help="look at runs in a browser: how far they are, why something is masked, where the time went",
        epilog="Exit codes: 0 after SIGTERM, 130 after Ctrl-C, 2 for an address that cannot be had.",
    ).add_argument
    add("folder", nargs="?", metavar="DIR", help="a run directory, or one with several (default: where runs are made)")
    add("--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1); others ask for a token")
    add("--port", type=int, default=5006, help="port; 0 takes a free one (default: 5006)")
    add(
        "--prefix",
        default="",
        metavar="PATH",
        help="path under which a proxy shows it, if it leaves it in its requests",
    )
    add("--token", action="store_true", help="ask for a token on this machine too")
    add("--token-file", metavar="FILE", help="the token (default: a new one, which is printed)")
    add("--allow-origin", action="append", default=[], metavar="HOST", help="host[:port] of a proxy. Repeatable")
    add("--open", action="store_true", help="open a browser")


def dashboard(arguments: argparse.Namespace) -> int:
    """Serve until told to stop: 0 after SIGTERM, 130 after Ctrl-C."""
    if find_spec("panel") is None:
        raise PrerequisiteError("the dashboard needs Panel", remedy="pip install 'swe_sdk[dashboard]'")
    from swe_sdk.dashboard.server import Dashboard, Place

    place = Place(arguments.host, arguments.port, arguments.prefix, _token(arguments), tuple(arguments.allow_origin))
    reading = _Reading()
    shown = Dashboard(_folder(arguments.folder), place, reading)
    reading.end()
    told = shown.run(lambda: _say_ready(shown, arguments))
    return 130 if told == signal.SIGINT else 0


def _folder(given: str | None) -> Path:
    if given is not None:
        return Path(given)
    folder = paths.runs_dir()
    folder.mkdir(parents=True, exist_ok=True)  # a first look may come before the first run
    return folder


def _token(arguments: argparse.Namespace) -> str | None:
    if arguments.token_file is None:
        from swe_sdk.dashboard.access import new_token

        return new_token() if arguments.token else None
    return read_token(Path(arguments.token_file))


def _say_ready(shown: Dashboard, arguments: argparse.Namespace) -> None:
    sys.stdout.write(f"dashboard of {shown.hub.root}: {shown.url}\n")
    sys.stdout.flush()
    if arguments.open:
        webbrowser.open(shown.url)


class _Reading:
    """Says on standard error how far the first look at many runs is; nothing where it takes no time."""

    def __init__(self) -> None:
        self._began = self._said_at = time.monotonic()
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._said = False

    def __call__(self, read_bytes: int, whole_bytes: int) -> None:
        """So much of the journals is indexed by now."""
        now = time.monotonic()
        every_s = _SAY_EVERY_S if self._is_terminal else _SAY_IN_A_FILE_EVERY_S
        if now - self._began < _QUIET_S or (self._said and now - self._said_at < every_s):
            return
        share = read_bytes / max(whole_bytes, 1)
        left_s = (now - self._began) * (1 - share) / share if share else 0.0
        self._say(f"indexing the runs, once: {share:4.0%} of {whole_bytes / 1e6:,.0f} MB, {left_s:.0f} s left")
        self._said, self._said_at = True, now

    def end(self) -> None:
        """All of it is."""
        if self._said:
            self._say(f"indexed the runs in {time.monotonic() - self._began:.0f} s{' ' * 30}\n")

    def _say(self, words: str) -> None:
        if sys.stderr is not None:  # as of a program without any
            sys.stderr.write(f"\r{words}" if self._is_terminal else f"{words.strip()}\n")
            sys.stderr.flush()
