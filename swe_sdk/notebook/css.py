"""The style sheet of reprs. Colours come from the palette and from the page around: JupyterLab, VS Code, mkdocs.

A page tells by an attribute whether it is dark. Where a style sheet is thrown away (an untrusted notebook, GitHub) the
text stands as it is: signs and words say all that colours say.
"""

from __future__ import annotations

from functools import cache

from swe_sdk.notebook.palette import PAGES

_DARK_PAGES = (
    '[data-jp-theme-light="false"]',  # JupyterLab, Notebook 7, nbconvert
    '[data-vscode-theme-kind="vscode-dark"]',
    '[data-vscode-theme-kind="vscode-high-contrast"]',  # the light one is vscode-high-contrast-light
    '[data-md-color-scheme="slate"]',  # mkdocs-material
    '[theme="dark"]',  # Colab
)

# The class stands thrice, so that it weighs more than what notebooks say of all tables.
_RULES = """
.swe{--ink:var(--jp-content-font-color1,var(--vscode-foreground,inherit));
--soft:var(--jp-content-font-color2,color-mix(in srgb,currentColor 75%,transparent));
--line:var(--jp-border-color2,var(--vscode-widget-border,rgba(128,128,128,.35)));
--wash:rgba(128,128,128,.1);--add:rgba(31,174,116,.16);--cut:rgba(217,101,10,.16);
--mono:var(--jp-code-font-family,var(--vscode-editor-font-family,ui-monospace,monospace));
color:var(--ink);font-size:13px;line-height:1.45;max-width:1100px;padding:2px 0;overflow-x:auto}
.swe .t{font-size:14px;margin:2px 0 4px}
.swe .s{color:var(--soft)}
.swe .b{color:var(--l);font-weight:600;white-space:nowrap}
DARK_PAGE .b{color:var(--d)}
.swe.swe.swe code,.swe.swe.swe pre{font-family:var(--mono);font-size:12px;color:inherit;background:none;padding:0;
border:0;unicode-bidi:isolate}
.swe.swe.swe code{background:var(--wash);border-radius:3px;padding:1px 4px;overflow-wrap:anywhere;white-space:pre-wrap}
.swe.swe.swe pre{margin:4px 0;padding:6px 8px;background:var(--wash);border-radius:4px;overflow:auto;max-height:480px;
line-height:1.4;white-space:pre}
.swe.swe.swe pre.w{white-space:pre-wrap;overflow-wrap:anywhere}
.swe .f{display:flex;flex-wrap:wrap;gap:1px 18px;margin:3px 0}
.swe .f>span{overflow-wrap:anywhere}
.swe.swe.swe table{border-collapse:collapse;border:0;margin:6px 0;width:auto;font-size:12px;table-layout:auto;
display:table;background:none}
.swe.swe.swe th,.swe.swe.swe td{text-align:left;vertical-align:top;padding:2px 10px 2px 0;border:0;
border-bottom:1px solid var(--line);background:none;color:inherit;white-space:normal;overflow-wrap:anywhere;
max-width:520px;font-weight:400;unicode-bidi:isolate;min-width:0}
.swe.swe.swe th{color:var(--soft);font-weight:600;white-space:nowrap;padding-top:0}
.swe.swe.swe td.n,.swe.swe.swe th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.swe.swe.swe td.k,.swe.swe.swe td.k code{white-space:nowrap}
.swe.swe.swe thead,.swe.swe.swe tr,.swe.swe.swe tr:hover{background:none}
.swe .bar{display:flex;height:10px;border-radius:3px;overflow:hidden;background:var(--wash);max-width:560px;
margin:5px 0 3px}
.swe .bar>div,.swe .track>div{background:var(--l);min-width:2px;box-sizing:border-box}
.swe .bar>div+div{border-left:1px solid var(--jp-layout-color0,var(--vscode-editor-background,LIGHT_PAGE))}
DARK_PAGE .bar>div,DARK_PAGE .track>div{background:var(--d)}
DARK_PAGE .bar>div+div{border-left-color:var(--jp-layout-color0,var(--vscode-editor-background,DARK_PAPER))}
.swe .track{width:320px;height:10px;background:var(--wash);border-radius:3px;overflow:hidden;margin-top:4px}
.swe .track>div{height:10px;border-radius:2px}
.swe .note{border-left:3px solid var(--l);padding:3px 10px;margin:6px 0;background:var(--wash);overflow-wrap:anywhere;
white-space:pre-wrap}
DARK_PAGE .note{border-left-color:var(--d)}
.swe.swe.swe details{display:block;margin:3px 0;padding:0;border:0;background:none;box-shadow:none;color:inherit;
font-size:inherit;overflow:visible}
.swe.swe.swe summary{cursor:pointer;display:list-item;list-style:disclosure-closed inside;margin:0;padding:0;border:0;
background:none;min-height:0;font-weight:400;overflow-wrap:anywhere}
.swe.swe.swe details[open]>summary{list-style-type:disclosure-open}
.swe.swe.swe summary:before,.swe.swe.swe summary:after{display:none}
.swe pre span.p{background:var(--add)}
.swe pre span.m{background:var(--cut)}
.swe pre span.h{color:var(--soft)}
.swe pre span.p,.swe pre span.m,.swe pre span.h{display:block}
.swe pre span.c{display:block}
"""


@cache
def style_rules() -> str:
    """All rules, on one line."""
    light, dark = PAGES["light"], PAGES["dark"]
    rules = _RULES.replace("LIGHT_PAGE", light.background).replace("DARK_PAPER", dark.background)
    return "".join(map(_for_dark_pages, rules.replace(",\n", ",").replace(";\n", ";").splitlines()))


def _for_dark_pages(rule: str) -> str:
    """A rule that begins with ``DARK_PAGE`` is one for each way in which pages say that they are dark."""
    if not rule.startswith("DARK_PAGE"):
        return rule
    selectors, _, body = rule.partition("{")
    parts = [part.replace("DARK_PAGE", f"{page} .swe") for page in _DARK_PAGES for part in selectors.split(",")]
    return f"{','.join(parts)}{{{body}"
