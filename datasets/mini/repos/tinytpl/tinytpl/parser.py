"""From text to nodes."""

from __future__ import annotations

import re
from typing import Any

from .errors import TemplateError
from .filters import FILTERS
from .nodes import Block, Expression, For, If, Output, Text

_TAG = re.compile(r"\{\{(?P<value>.*?)\}\}|\{%(?P<tag>.*?)%\}")
_PATH = re.compile(r"[A-Za-z_]\w*(\.\w+)*")
_FOR = re.compile(r"for\s+([A-Za-z_]\w*)\s+in\s+(.+)")


def parse(text: str) -> Block:
    root = Block()
    stack: list[tuple[Any, Block, int]] = []  # open tags, the block each one interrupted, their lines
    block, position = root, 0
    for match in _TAG.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match.start() > position:
            block.nodes.append(Text(text[position : match.start()]))
        position = match.end()
        if match["value"] is not None:
            block.nodes.append(Output(_expression(match["value"], line)))
            continue
        tag = match["tag"].strip()
        if tag == "end":
            if not stack:
                raise TemplateError("'end' without a beginning", line)
            _, block, _ = stack.pop()
        elif tag == "else":
            if not stack or not isinstance(stack[-1][0], If):
                raise TemplateError("'else' without 'if'", line)
            block = stack[-1][0].orelse
        else:
            node = _open(tag, line)
            block.nodes.append(node)
            stack.append((node, block, line))
            block = node.body
    if stack:
        raise TemplateError("a block has no 'end'", stack[-1][2])
    root.nodes.append(Text(text[position:]))
    return root


def _open(tag: str, line: int) -> Any:
    loop = _FOR.fullmatch(tag)
    if loop is not None:
        return For(loop[1], _expression(loop[2], line))
    if tag.startswith("if "):
        return If(_expression(tag[3:], line))
    raise TemplateError(f"unknown tag {tag!r}", line)


def _expression(text: str, line: int) -> Expression:
    path, *filters = [part.strip() for part in text.split("|")]
    if not _PATH.fullmatch(path):
        raise TemplateError(f"not a name: {path!r}", line)
    for name in filters:
        if name not in FILTERS:
            raise TemplateError(f"unknown filter {name!r}", line)
    return Expression(path.split("."), filters, line)
