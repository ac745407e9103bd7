"""Kinds of masks against stages, providers or runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from swe_sdk.dashboard.components import (
    card,
    tabs,
)
from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.escape import Html, cut, el
from swe_sdk.dashboard.show import count, pill
from swe_sdk.store.sum_rows import MaskCell

_TABLES: Sequence[tuple[str, str]] = (("stage", "by stage"), ("provider", "by provider"), ("run", "by run"))


_MOST_COLUMNS = 12


def matrix_card(context: Context, cells: Sequence[MaskCell]) -> Html | None:
    """How many masked attempts there are of each kind, by what the state says; each number is a link to them."""
    by = context.state.get("by", "stage", among=[name for name, _label in _TABLES])
    of: Callable[[MaskCell], str] = {
        "stage": lambda cell: cell.stage,
        "provider": lambda cell: cell.provider or "none yet",
        "run": lambda cell: cell.run,
    }[by]
    across, down, counts = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for cell in cells:
        across[of(cell)] += cell.attempts
        down[cell.kind] += cell.attempts
        counts[cell.kind, of(cell)] += cell.attempts
    if not cells:
        return None
    names = [name for name, _number in across.most_common(_MOST_COLUMNS)]
    left_out = f", and {len(across) - len(names)} more {by}s" if len(across) > len(names) else ""
    head = el("tr", el("th", "kind"), [el("th", cut(name, 26), cls="num", title=name) for name in names])
    most = max(counts.values())
    body = [_matrix_row(context, by, kind, names, counts, most) for kind, _number in down.most_common()]
    grid = el("div", el("table", el("thead", head), el("tbody", body), aria_label=f"kinds {by}"), cls="table heat")
    switch = tabs(context, [(name, label) for name, label in _TABLES], by, field="by")
    return card("Kinds", switch, grid, note=f"masked attempts{left_out}", cls="wide", key="matrix")


def _matrix_row(
    context: Context, by: str, kind: str, names: Iterable[str], counts: Counter[tuple[str, str]], most: int
) -> Html:
    field = {"stage": "mask_stage", "provider": "provider", "run": "run"}[by]
    cells = []
    for name in names:
        number = counts[kind, name]
        shade = f"heat heat-{min(9, number * 10 // (most + 1))}" if number else "heat none"
        target = context.href(**{"mask_kind": (kind,), field: (name,)})
        link = el("a", count(number), href=target) if number else "·"
        cells.append(el("td", link, cls=f"num {shade}"))
    return el("tr", el("td", pill("mask", kind)), cells, key=f"heat-{kind}")
