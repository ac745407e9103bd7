"""The page of the dashboard as a Panel application: one session for each tab of a browser."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlencode

import panel as pn

from swe_sdk.dashboard.hub import Hub
from swe_sdk.dashboard.page import style, template
from swe_sdk.dashboard.session import TICK_MS, Viewer


def application(hub: Hub) -> pn.Template:
    """What one viewer gets. Called by Panel for each of them."""
    viewer = Viewer(hub, _query())
    page = pn.Template(template())
    page.add_variable("page_html", str(viewer.first.html))
    page.add_variable("page_title", viewer.first.title)
    page.add_variable("page_style", style())
    page.add_panel("bridge", viewer.bridge)
    pn.state.onload(partial(_keep_up, viewer))
    return page


def _keep_up(viewer: Viewer) -> None:
    pn.state.add_periodic_callback(viewer.tick, period=TICK_MS)  # type: ignore[arg-type]  # it takes these as well


def _query() -> str:
    """The query of the URL that the page was opened with."""
    pairs = [
        (key, value.decode("utf-8", "replace")) for key, values in pn.state.session_args.items() for value in values
    ]
    return urlencode(pairs)
