"""The patch in what a model said: in the metadata of its response, or in a fenced block of its text."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from swe_sdk.errors import InputError
from swe_sdk.model.patch import EMPTY_PATCH, Patch
from swe_sdk.server.models import ModelResponse, PatchSource

TEXT_FIELD = "model_patch"
BYTES_FIELD = "model_patch_base64"
_LANGUAGES = ("diff", "patch")
_FENCE = re.compile(r"( {0,3})(`{3,}+|~{3,}+)[ \t]*+([^\s`]*+)[^`]*+")
"""Possessive: a model's text may hold a line of any length, and a search that goes back would take its square."""


class FoundPatch(NamedTuple):
    """A patch, and where it stood."""

    patch: Patch
    source: PatchSource


def find_patch(response: ModelResponse) -> FoundPatch:
    """The patch of a response, or the empty one: metadata first (``""`` there is an empty patch), then its text.

    Raises ``InputError`` where the metadata holds something that is no patch.
    """
    given = patch_in_metadata(response.metadata or {})
    if given is not None:
        return FoundPatch(given, "metadata")
    for text in message_texts(response.output):
        block = first_block(text)
        if block is not None:
            return FoundPatch(Patch.of(block), "fence")
    return FoundPatch(EMPTY_PATCH, "none")


def patch_in_metadata(metadata: Mapping[str, Any]) -> Patch | None:
    """The patch that stands there, if one does. ``InputError`` for something that is none."""
    text, encoded = metadata.get(TEXT_FIELD), metadata.get(BYTES_FIELD)
    if text is not None and encoded is not None:
        raise InputError(f"response.metadata has both {TEXT_FIELD} and {BYTES_FIELD}", remedy="keep one of them")
    if encoded is not None:
        return _decoded(encoded)
    if text is None:
        return None
    if not isinstance(text, str):
        raise InputError(f"response.metadata.{TEXT_FIELD} is a {type(text).__name__}", remedy="give text")
    return _encodable(text)


def _decoded(encoded: Any) -> Patch:
    try:
        return Patch.of(base64.b64decode(encoded, validate=True))
    except (TypeError, ValueError):
        raise InputError(f"response.metadata.{BYTES_FIELD} is not base64", remedy="encode the bytes anew") from None


def _encodable(text: str) -> Patch:
    try:
        return Patch.of(text)
    except UnicodeEncodeError:
        problem = f"response.metadata.{TEXT_FIELD} holds lone surrogates, which stand for no bytes"
        raise InputError(problem, remedy=f"give the bytes as {BYTES_FIELD}") from None


def message_texts(output: Sequence[Any]) -> Iterator[str]:
    """What the model itself wrote, in order: no reasoning, and nothing that a tool has printed."""
    for item in output:
        if not isinstance(item, Mapping) or item.get("type", "message") != "message":
            continue
        if item.get("role", "assistant") == "assistant":
            yield from _texts(item.get("content"))


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        if isinstance(part, Mapping) and part.get("type", "output_text") == "output_text":
            text = part.get("text")
            if isinstance(text, str):
                yield text


def first_block(text: str) -> str | None:
    """The content of the first fenced block named ``diff`` or ``patch``, or None.

    Fences are those of CommonMark, with two differences. A block that is never closed is none: it may have been cut.
    And its end must be indented as its beginning is, so that a context line of a diff of a Markdown file, which is a
    fence behind one space, does not end it.
    """
    lines = iter(text.split("\n"))
    for line in lines:
        opening = _FENCE.fullmatch(line.rstrip("\r"))
        if opening is not None:
            content = _until_closed(lines, opening[1], opening[2])
            if content is None or opening[3].lower() in _LANGUAGES:
                return content
    return None


def _until_closed(lines: Iterator[str], indent: str, fence: str) -> str | None:
    closing = re.compile(rf"{indent}{fence[0]}{{{len(fence)},}}[ \t]*\r?")
    content: list[str] = []
    for line in lines:
        if closing.fullmatch(line):
            return "".join(f"{line}\n" for line in content)
        content.append(_without(line, len(indent)))
    return None


def _without(line: str, indent: int) -> str:
    """The line without as much of the fence's own indentation as it has."""
    return line[min(indent, len(line) - len(line.lstrip(" "))) :]
