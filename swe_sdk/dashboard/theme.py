"""The colours of the page, from the palette that plots and reprs share, as a style sheet."""

from __future__ import annotations

from collections.abc import Iterator

from swe_sdk.dashboard.show import TABLES, tone
from swe_sdk.notebook.palette import PAGES, UNKNOWN, Style, Theme

_THEMES: tuple[Theme, ...] = ("light", "dark")


def stylesheet() -> str:
    """Variables of both themes, and a class for each word that has a colour: ``--tone`` and ``--tone-text``."""
    return "\n".join(line for theme in _THEMES for line in _theme(theme)) + "\n"


def _theme(theme: Theme) -> Iterator[str]:
    page = PAGES[theme]
    scope = f':root[data-theme="{theme}"]'
    yield f"{scope} {{ color-scheme: {theme}; --page: {page.background}; --ink: {page.foreground};"
    yield f"  --dim: {page.muted}; --line: {page.grid}; --tile: {page.empty}; }}"
    yield _tone(scope, "tone-unknown", UNKNOWN, theme)
    for table, words in TABLES.items():
        for word, style in words.items():
            yield _tone(scope, tone(table, word), style, theme)


def _tone(scope: str, name: str, style: Style, theme: Theme) -> str:
    return f"{scope} .{name} {{ --tone: {style.fill(theme)}; --tone-text: {style.text(theme)}; }}"
