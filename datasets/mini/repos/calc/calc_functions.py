"""Names that every expression may use."""

from __future__ import annotations

import math
from typing import Callable, Dict, Mapping

CONSTANTS: Mapping[str, float] = {"pi": math.pi, "e": math.e}

FUNCTIONS: Dict[str, Callable[..., float]] = {
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "max": max,
    "min": min,
    "sqrt": math.sqrt,
}
