"""Elements of markup taken out of a text, as the official parser of p5.js takes them out.

Its rule, applied until it no longer applies: the first ``<name>`` that has a ``</name>`` anywhere after it, and all up
to the first of these, is replaced by as many ``<name>`` as stood in between. What is left and right of a removed
element may make a tag together. Done by the letter this takes time that grows with the square of the text; here the
text is read once, and what was read and cannot be removed any more is kept apart.
"""

from __future__ import annotations

import io
import re
from collections import defaultdict, deque
from dataclasses import dataclass, field

_TAG = re.compile(r"<(/?)(\w+)>")
_PARTIAL = re.compile(r"</?\w*")
_SLASH_AND_NAME, _NAME = re.compile(r"/?\w*"), re.compile(r"\w*")


def without_markup(text: str) -> str:
    """The text without the elements that the rule removes."""
    if "</" not in text:
        return text
    return _Removal(text).run()


@dataclass(slots=True)
class _Kept:
    """Text that was read and stays, unless a tag made by a removal reaches back into it."""

    text: io.StringIO = field(default_factory=io.StringIO)
    length: int = 0
    partial: list[tuple[int, int]] = field(default_factory=list)
    """Where each beginning of a tag (``<``, ``</``, ``<na``) starts and ends."""
    tags: list[tuple[int, str]] = field(default_factory=list)
    """The opening tags that found no end, by place."""
    by_name: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, text: str) -> None:
        if self.partial and self.partial[-1][1] == self.length:
            start, end = self.partial[-1]
            more = (_SLASH_AND_NAME if end == start + 1 else _NAME).match(text)
            self.partial[-1] = (start, end + (more.end() if more else 0))
        self.partial += [(self.length + at.start(), self.length + at.end()) for at in _PARTIAL.finditer(text)]
        self.text.write(text)
        self.length += len(text)

    def add_opening(self, name: str) -> None:
        self.tags.append((self.length, name))
        self.by_name[name].append(self.length)
        self.add(f"<{name}>")

    @property
    def beginning(self) -> int:
        """The length of the beginning of a tag that the text ends with; 0 where it does not end with one."""
        at_end = bool(self.partial) and self.partial[-1][1] == self.length
        return self.length - self.partial[-1][0] if at_end else 0

    def last(self, length: int) -> str:
        """The last characters."""
        self.text.seek(self.length - length)
        return self.text.read()

    def cut(self, at: int) -> None:
        """Forget all from there on."""
        self.text.seek(at)
        self.text.truncate()
        self.length = at
        while self.tags and self.tags[-1][0] >= at:
            self.by_name[self.tags.pop()[1]].pop()
        while self.partial and self.partial[-1][0] >= at:
            self.partial.pop()
        if self.partial:
            start, end = self.partial[-1]
            self.partial[-1] = (start, min(end, at))


class _Removal:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.kept = _Kept()
        self.ends: dict[str, deque[tuple[int, int]]] = defaultdict(deque)
        for tag in _TAG.finditer(text):
            if tag[1]:
                self.ends[tag[2]].append(tag.span())

    def run(self) -> str:
        while self._joined() or self._next():
            pass
        return self.kept.text.getvalue()

    def _joined(self) -> bool:
        """Read the tag that what was kept makes with what follows it, if there is one."""
        beginning = self.kept.beginning
        rest = (_SLASH_AND_NAME if beginning == 1 else _NAME).match(self.text, self.at)
        end = rest.end() if rest else self.at
        if not beginning or not self.text.startswith(">", end):
            return False
        tag = _TAG.fullmatch(self.kept.last(beginning) + self.text[self.at : end + 1])
        if tag is None:
            return False
        self.at = end + 1
        self.kept.cut(self.kept.length - beginning)
        openings = self.kept.by_name.get(tag[2], []) if tag[1] else []
        if not tag[1]:
            self._open(tag[2], 1)
        elif openings:
            count = len(openings)
            self.kept.cut(openings[0])
            self._open(tag[2], count - 1)
        else:
            self.kept.add(tag[0])
        return True

    def _next(self) -> bool:
        """Keep the text up to the next tag, and read that."""
        tag = _TAG.search(self.text, self.at)
        if tag is None:
            self.kept.add(self.text[self.at :])
            return False
        self.kept.add(self.text[self.at : tag.start()])
        self.at = tag.end()
        if tag[1]:
            self.kept.add(tag[0])
        else:
            self._open(tag[2], 1)
        return True

    def _open(self, name: str, count: int) -> None:
        """Remove the elements that so many ``<name>`` at this place begin; keep those that have no end."""
        ends = self.ends[name]
        while count:
            while ends and ends[0][0] < self.at:
                ends.popleft()
            if not ends:
                break
            start, end = ends.popleft()
            count += self.text.count(f"<{name}>", self.at, start) - 1
            self.at = end
        for _ in range(count):
            self.kept.add_opening(name)
