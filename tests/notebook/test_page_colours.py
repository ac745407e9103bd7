"""The colours of a repr in a real browser, on pages that say in their own way that they are light or dark.

The attributes are those of JupyterLab 4.6, VS Code 1.100 (of ``body`` within its frame of outputs), mkdocs-material and
Colab.
"""

from __future__ import annotations

from typing import Any

import pytest

from swe_sdk.model.outcome import Outcome, PatchReport
from swe_sdk.notebook.palette import TIMING, VERDICT, Theme

SHOWN = Outcome(
    instance_id="a__b-1", family="f", status="resolved", reward=1.0, patch=PatchReport(exists=True, sha256="0" * 64),
    timings_s={"tests": 1.0, "teardown": 1.0}, artifacts={"log": "/log"},
)  # fmt: skip
VS_CODE = "--vscode-foreground:{};--vscode-editor-background:{};color:{};background:{}"


def vs_code(kind: str, ink: str, paper: str, classes: str = "") -> str:
    return f'class="{classes or kind}" data-vscode-theme-kind="{kind}" style="{VS_CODE.format(ink, paper, ink, paper)}"'


PAGES: dict[str, tuple[Theme, str]] = {
    "JupyterLab light": ("light", 'data-jp-theme-light="true"'),
    "JupyterLab dark": ("dark", 'data-jp-theme-light="false" style="color:#fff;background:#111"'),
    "VS Code light": ("light", vs_code("vscode-light", "#3b3b3b", "#ffffff")),
    "VS Code dark": ("dark", vs_code("vscode-dark", "#cccccc", "#1f1f1f")),
    "VS Code high contrast": ("dark", vs_code("vscode-high-contrast", "#ffffff", "#000000")),
    "VS Code high contrast light": (
        "light",
        vs_code("vscode-high-contrast-light", "#292929", "#ffffff", "vscode-high-contrast-light vscode-high-contrast"),
    ),
    "mkdocs dark": ("dark", 'data-md-color-scheme="slate" style="color:#eee;background:#1e2129"'),
    "Colab dark": ("dark", 'theme="dark" style="color:#eee;background:#383838"'),
    "any other": ("light", ""),
}
LOOK = """() => {
  const colour = (selector, name) => getComputedStyle(document.querySelector(selector))[name];
  const painted = paint => {
    const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    for (const each of ['#fff', getComputedStyle(document.body).backgroundColor, paint]) {
      canvas.fillStyle = each; canvas.fillRect(0, 0, 1, 1);
    }
    return [...canvas.getImageData(0, 0, 1, 1).data.slice(0, 3)];
  };
  return {
    badge: colour('.swe .t .b', 'color'),
    bar: colour('.swe .bar div', 'backgroundColor'),
    head: colour('.swe thead', 'backgroundColor'),
    soft: painted(colour('.swe .s', 'color')),
    ink: painted(colour('.swe strong', 'color')),
    page: painted('transparent'),
  };
}"""


def luminance(colour: list[int]) -> float:
    """Of WCAG 2.2."""
    parts = [each / 255 for each in colour]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: list[int], other: list[int]) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def rgb(colour: str) -> str:
    return f"rgb({', '.join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))})"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_gets_its_colours_and_can_be_read(chromium: Any, name: str) -> None:
    theme, attributes = PAGES[name]
    page = chromium.new_page()
    stripes = "<style>thead, tr {background: #888}</style>"
    page.set_content(f"<body {attributes}>{stripes}{SHOWN._repr_html_()}</body>")
    found = page.evaluate(LOOK)
    page.close()
    assert found["badge"] == rgb(VERDICT["resolved"].text(theme))
    assert found["bar"] == rgb(TIMING["tests"].fill(theme))
    assert found["head"] == "rgba(0, 0, 0, 0)", "no page's own stripes"
    assert contrast(found["ink"], found["page"]) >= 7
    assert 4.5 <= contrast(found["soft"], found["page"]) < contrast(found["ink"], found["page"])
