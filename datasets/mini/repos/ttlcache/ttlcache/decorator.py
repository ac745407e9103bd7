"""Remember what a function returned."""

from __future__ import annotations

import functools
from typing import Any, Callable

from .cache import TTLCache

_MISSING = object()


def cached(cache: TTLCache) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function so that equal arguments are answered from ``cache``."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            key = (function.__qualname__, args, tuple(sorted(kwargs.items())))
            value = cache.get(key, _MISSING)
            if value is _MISSING:
                value = function(*args, **kwargs)
                cache.set(key, value)
            return value

        return wrapper

    return decorate
