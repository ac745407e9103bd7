"""Write the tables of the pages that follow from the code: ``python -m scripts.render_tables``.

A table stands between two marks in its page, ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->``. A test compares.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import get_args

from swe_sdk.errors import SweError
from swe_sdk.recipes.contract import AppliesTests, NeedsFiles, ReadsResults, Recipe
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.registry import _BUILTIN, get_recipe
from swe_sdk.sandbox.contract import Capability, SupportsImages
from swe_sdk.sandbox.reaping import SupportsReaping
from swe_sdk.sandbox.registry import named_provider, provider_names

_DOCS = Path(__file__).resolve().parents[1] / "docs"
_CAPABILITIES: Mapping[str, str] = {
    "snapshots": "`snapshot`, `fork`, checkpoints of its boxes",
    "pause": "`pause` and `resume`: every process stops",
    "streaming": "`on_output`: output while the program runs",
    "listen": "a port within a box without a network: the way to the model",
    "processes": "`processes`: what runs in a box",
    "build": "tasks with sources: environments are built here",
    "export": "snapshots can be copied to shared storage (`snapshot_share`)",
    "remote_snapshots": "snapshots lie with a service: every node that reaches it goes on from them",
    "open_network": "boxes have a network whatever is asked for; whoever set it up has accepted that",
}
_PROTOCOLS = {"images are fetched by itself": SupportsImages, "boxes of dead programs are reaped": SupportsReaping}
_RULES = ("legacy", "4.1.0", "nested")
_EXTRAS = {"results files": ReadsResults, "own test rung": AppliesTests, "files of its own": NeedsFiles}


def provider_matrix() -> str:
    """A column a provider, a row for each thing that only some of them can do."""
    providers = [named_provider(name) for name in provider_names()]
    rows = [
        [f"`{each}`", _CAPABILITIES[each], *(_yes(each in one.capabilities) for one in providers)]
        for each in get_args(Capability)
    ]
    rows += [
        ["", what, *(_yes(isinstance(one, protocol)) for one in providers)] for what, protocol in _PROTOCOLS.items()
    ]
    return _table(["capability", "what for", *(f"`{one.name}`" for one in providers)], rows)


def family_table() -> str:
    """A row a family: its version, how patches are applied, whose rules there are, what it has besides."""
    bundled = Counter(task.family for task in load_tasks("mini"))
    return _table(
        ["family", "recipe", "a patch is applied by, in turn", "other rules", "it has", "bundled tasks"],
        [_family_row(name, get_recipe(name), bundled[name]) for name in sorted(_BUILTIN)],
    )


def _family_row(name: str, recipe: Recipe, bundled: int) -> list[str]:
    rungs = ", ".join(f"`{rung.name}`" for rung in recipe.ladder)
    rules = ", ".join(f"`@{rule}`" for rule in _RULES if _has_rules(name, rule))
    extras = ", ".join(what for what, protocol in _EXTRAS.items() if isinstance(recipe, protocol))
    return [f"`{name}`", f"`{recipe.version}`", rungs, rules, extras, str(bundled)]


def _has_rules(family: str, rules: str) -> bool:
    try:
        get_recipe(f"{family}@{rules}")
    except SweError:
        return False
    return True


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


TABLES: Mapping[str, tuple[str, Callable[[], str]]] = {
    "providers": ("provider_matrix.md", provider_matrix),
    "families": ("families.md", family_table),
}
"""Name of the marks, page below ``docs``, what makes the table."""


def rendered(page: str, name: str, table: str) -> str:
    """The page with its table as it should be. Raises ``ValueError`` where it has no marks of that name."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if begin not in page or end not in page:
        raise ValueError(f"the page has no marks {begin} and {end}")
    return re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", f"{begin}\n\n{table}\n{end}", page, flags=re.DOTALL)


def main() -> None:
    """Write all of them."""
    for name, (file, make) in TABLES.items():
        path = _DOCS / file
        path.write_text(rendered(path.read_text("utf-8"), name, make()), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
