"""A hook of mkdocs.yml: the cross-references of our docstrings (``:class:`~swe_sdk.Patch```) become links."""

from __future__ import annotations

import re
from typing import Any

_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):<code>(~?)([\w.]+)</code>")


def on_page_content(html: str, **_event: Any) -> str:
    """Called by mkdocs with the content of each page."""
    return _ROLE.sub(_link, html)


def _link(role: re.Match[str]) -> str:
    """A reference that is resolved where its target has a place in the pages, and plain code where not."""
    tilde, name = role.groups()
    shown = name.rpartition(".")[2] if tilde else name
    return f'<autoref optional identifier="{name}"><code>{shown}</code></autoref>'
