"""Test ids in one form, whatever runner or report they come from. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from swe_sdk.recipes.parsers.status import combine

_ORDER = re.compile(r"^(?:[(\[]?\s*\d+/\d+[)\]]?\s+|#\s*\d+\s+|\d+\.\s+)")
_EXTENSION = re.compile(
    r"\.(?:pyw?|[mc]?[jt]s|[jt]sx|go|java|rb|rs|c|cpp|cc|cxx|h|hpp|hxx|swift|kts?|scala|php|cs|fs|exs?|erl|hrl|clj[sc]?"
    r"|lua|p[lm]|t|r|mm?|f|f90|f95|for|vb|pas|pp|d|nim|zig|s?v|vhdl?|tcl|(?:ba|z|fi)?sh|ps[dm]?1)(?=::|/|\.|$)",
    re.IGNORECASE,
)
_DELIMITER = re.compile(r"(?<=\w)(?:::|\.|/)(?=\w)")
_ROOTS = re.compile(r"^/?(?:testbed|workspace/repo|app)/")


def normalized(test_id: str) -> str:
    """One form for ids that differ in their notation alone.

    Taken away: a counter before it (``(2/5)``, ``#4``, ``3.``), the extension of a file in it, and the folder in which
    the repository lies; ``.``, ``/`` and ``::`` between words become ``::``. So ``tests/a.py::T::x``,
    ``tests.a.T::x`` and ``/testbed/tests/a.py::T.x`` are one. Parameters in brackets are left as they are.
    """
    path, bracket, parameters = test_id.partition("[") if not test_id.startswith(("[", "(")) else (test_id, "", "")
    path = _ROOTS.sub("", _ORDER.sub("", path))
    return _DELIMITER.sub("::", _EXTENSION.sub("", path)) + bracket + parameters


def by_normalized(statuses: Mapping[str, str]) -> dict[str, str]:
    """Statuses by normalized id; where two ids become one and disagree, a failure stands."""
    found: dict[str, str] = {}
    for name, status in statuses.items():
        key = normalized(name)
        found[key] = combine(found.get(key), status)
    return found
