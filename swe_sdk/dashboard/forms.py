"""Filters. A form is a link that is being typed: each change leads to another state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.escape import Child, Html, cut, el
from swe_sdk.dashboard.show import count
from swe_sdk.dashboard.state import State, key_of


def filter_form(context: Context, *fields: Child, names: Iterable[str], key: str = "filters") -> Html:
    """A form around some fields, whose names are those of the state that they set; all else of the state is kept."""
    keys = {key_of(name) for name in names} | {"page"}
    kept = [(name, value) for name, value in context.state.pairs() if name not in keys]
    hidden = [el("input", type="hidden", name=name, value=value) for name, value in kept]
    return el("form", hidden, *fields, cls="filters", method="get", action="?", role="search", key=key)


def search_field(context: Context, placeholder: str, *, field: str = "text", label: str = "search") -> Html:
    """Text that is looked for while it is typed. The key ``/`` goes there."""
    value = _value(context.state, field)
    return el(
        "input",
        type="search",
        name=key_of(field),
        value=value,
        placeholder=placeholder,
        aria_label=label,
        data_shortcut="/",
        autocomplete="off",
        spellcheck="false",
        id=f"field-{key_of(field)}",
    )


def choice_field(context: Context, field: str, label: str, options: Sequence[tuple[str, Child, int | None]]) -> Html:
    """A menu of which any number may be chosen: (value, how it is shown, how many there are)."""
    chosen: tuple[str, ...] = getattr(context.state, field)
    known = {value for value, _shown, _number in options}
    gone: list[tuple[str, Child, int | None]] = [(value, cut(value, 60), 0) for value in chosen if value not in known]
    rows = [_option(field, *option, is_chosen=option[0] in chosen) for option in [*options, *gone]]
    told = f"{label}: {cut(chosen[0], 24)}" if len(chosen) == 1 else f"{label}: {len(chosen)}" if chosen else label
    body = el("div", rows or el("p", "none", cls="dim"), cls="options", role="group", aria_label=label)
    return el("details", el("summary", told, cls="on" if chosen else None), body, cls="menu", key=f"menu-{field}")


def one_of_field(context: Context, field: str, label: str, options: Sequence[tuple[str, str]]) -> Html:
    """A menu of which one is chosen: (value, how it is shown)."""
    value = _value(context.state, field)
    rows = [el("option", shown, value=name, selected=name == value) for name, shown in options]
    return el("label", el("span", label), el("select", rows, name=key_of(field)), cls="one-of")


def number_field(context: Context, field: str, label: str, placeholder: str = "") -> Html:
    """A whole number, taken when Enter is pressed."""
    box = el("input", type="text", inputmode="numeric", pattern="[0-9,]*", name=key_of(field), placeholder=placeholder)
    return el("label", el("span", label), box, cls="one-of", data_enter=True)


def clear_link(context: Context, label: str = "clear filters") -> Html | None:
    """Takes all filters away but the choice of runs; None where there are none."""
    if not context.state.is_filtered:
        return None
    fields = ("status", "mask_kind", "mask_stage", "family", "repo", "agent", "model", "provider", "instance_id")
    nothing: dict[str, Any] = {**dict.fromkeys(fields, ()), "text": ""}
    return context.link(label, cls="ghost button", **nothing)


def _option(field: str, value: str, shown: Child, number: int | None, *, is_chosen: bool) -> Html:
    box = el("input", type="checkbox", name=key_of(field), value=value, checked=is_chosen)
    return el("label", box, el("span", shown), el("small", count(number)) if number is not None else None)


def _value(state: State, field: str) -> str:
    return str(getattr(state, field)) if field in State.model_fields else state.get(field)
