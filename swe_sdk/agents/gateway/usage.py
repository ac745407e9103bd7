"""Token counts out of a response that passes by: a few kilobytes are kept, never the body. Pure."""

from __future__ import annotations

import json
import re

_USAGE = re.compile(rb'"usage"\s*:\s*\{')
_LONGEST_BYTES = 16 << 10
"""Of a ``usage`` object; real ones have a few hundred bytes."""
_DECODER = json.JSONDecoder()


class UsageReader:
    """Feed it the body as it comes; whole JSON or events, of any of the three interfaces.

    A key ``"usage"`` cannot come from within a string, where its quotes would be escaped. An object of that name counts
    if it holds token counts: a tool's parameter named so does not. The last one is the whole, except that ``/messages``
    tells prompt and completion apart.
    """

    def __init__(self) -> None:
        self.prompt_tokens: int | None = None
        self.completion_tokens: int | None = None
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """The next piece of the body."""
        window = self._rest + data
        kept = len(window)  # nothing of it is needed any more, but for a key that may have begun at its end
        for match in _USAGE.finditer(window):
            if not self._take(window[match.end() - 1 : match.end() + _LONGEST_BYTES]):
                kept = min(kept, match.start())
        self._rest = window[max(min(kept, len(window) - 32), len(window) - 2 * _LONGEST_BYTES, 0) :]

    def _take(self, text: bytes) -> bool:
        """Read the object at the start of ``text``; False where it is not complete."""
        try:
            value, _end = _DECODER.raw_decode(text.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return False
        prompt = _count(value, "prompt_tokens", "input_tokens")
        completion = _count(value, "completion_tokens", "output_tokens")
        self.prompt_tokens = self.prompt_tokens if prompt is None else prompt
        self.completion_tokens = self.completion_tokens if completion is None else completion
        return True


def _count(value: dict[str, object], *names: str) -> int | None:
    for name in names:
        count = value.get(name)
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
            return count
    return None
