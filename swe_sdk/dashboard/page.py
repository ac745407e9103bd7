"""The page around the views, as it is sent first: everything to be seen is in it, before any script has run."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from swe_sdk.dashboard.theme import stylesheet

CSP = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; "
    "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob: data:; connect-src 'self' blob:; form-action 'self'; "
    "base-uri 'self'; object-src 'none'"
)
"""Panel runs scripts that stand in the page; whatever else the page might be made to do, it reaches no other host."""

_TEMPLATE = """
{% extends base %}
{% block inner_head %}
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta http-equiv="Content-Security-Policy" content="CSP_POLICY">
<title>{{ page_title | e }}</title>
<link rel="icon" href="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect \
width='16' height='16' rx='4' fill='%230a4db0'/%3E%3Cpath d='M4 8.5l2.5 2.5L12 5.5' stroke='white' stroke-width='2' \
fill='none'/%3E%3C/svg%3E">
<script>
  try { document.documentElement.dataset.theme = new URLSearchParams(location.search).get("theme")
    || localStorage.getItem("swe-sdk-theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  } catch { document.documentElement.dataset.theme = "light"; }
</script>
<style>{{ page_style }}</style>
{% endblock %}
{% block contents %}
<div id="page">{{ page_html }}</div>
<div id="bridge" aria-hidden="true">{{ embed(roots.bridge) }}</div>
{{ bokeh_css }}
{% for line in bokeh_js.splitlines() if "bokeh-gl." not in line and "bokeh-mathjax." not in line %}
{{ line }}
{% endfor %}
{% endblock %}
"""


@cache
def template() -> str:
    """The template of the page. Scripts come last: what is to be seen is painted before they are there."""
    return _TEMPLATE.replace("CSP_POLICY", CSP.replace('"', "&quot;"))


@cache
def bridge_script() -> str:
    """What runs in the browser."""
    return files("swe_sdk.dashboard").joinpath("static/bridge.js").read_text("utf-8")


@cache
def style() -> str:
    """All of the looks."""
    folder = files("swe_sdk.dashboard").joinpath("static")
    return stylesheet() + "".join(folder.joinpath(f"{name}.css").read_text("utf-8") for name in ("dashboard", "views"))
