"""Names that every expression may use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Callable

CONSTANTS: Mapping[str, float] = {"pi": math.pi, "e": math.e}

FUNCTIONS: dict[str, Callable[..., float]] = {
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "max": max,
    "min": min,
    "sqrt": math.sqrt,
}
