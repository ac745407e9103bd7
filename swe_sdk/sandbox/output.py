"""Bounded output: the head and the tail of a stream, whatever its length."""

from __future__ import annotations

from swe_sdk.errors import InputError
from swe_sdk.sandbox.boxside import keeping


class HeadTail(keeping.HeadTail):
    """Keeps the first and the last half of ``limit`` bytes, and counts what was dropped between them."""

    def __init__(self, limit: int) -> None:
        if limit < 0:
            raise InputError(f"a limit of {limit} bytes of output")
        super().__init__(limit)
