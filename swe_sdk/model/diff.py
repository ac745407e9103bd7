"""Which files a git-style diff touches. Pure; never raises on malformed input."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ESCAPES = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_HEADER = re.compile(rb'diff --git (?P<old>"(?:[^"\\]|\\.)*"|a/.*?) (?P<new>"(?:[^"\\]|\\.)*"|b/.*)')
_HUNK = re.compile(rb"@@ -\d+(?:,(\d{1,18}))? \+\d+(?:,(\d{1,18}))? @@")  # int() refuses numbers of 4300 digits


@dataclass(frozen=True)
class PatchedFile:
    """One file of a diff; ``old`` is None where it is added, ``new`` where it is deleted. Names are raw bytes."""

    old: bytes | None
    new: bytes | None

    @property
    def paths(self) -> tuple[bytes, ...]:
        """The one or two distinct names of the file."""
        return tuple(dict.fromkeys(name for name in (self.old, self.new) if name is not None))


def _unquote(name: bytes) -> bytes:
    """Undo git's C-style quoting of unusual names."""
    if len(name) < 2 or not name.startswith(b'"') or not name.endswith(b'"'):
        return name

    def decode(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8) & 0xFF]) if len(code) == 3 else _ESCAPES.get(code, code)

    return _ESCAPE.sub(decode, name[1:-1])


def _name(field: bytes, prefix: bytes) -> bytes | None:
    """The file name of a ``---`` or ``+++`` line's value, or None for /dev/null."""
    name = _unquote(field.split(b"\t", 1)[0].rstrip(b"\r"))  # git ends a name that has a space by a tab, quoted or not
    return None if name == b"/dev/null" else name.removeprefix(prefix)


def _header_names(line: bytes) -> tuple[bytes | None, bytes | None]:
    """Names of a ``diff --git`` line. For equal names, which may hold spaces, the middle is found by length."""
    rest = line.removeprefix(b"diff --git ")
    half = (len(rest) - 1) // 2
    if rest[:2] == b"a/" and rest[half : half + 3] == b" b/" and rest[2:half] == rest[half + 3 :]:
        return rest[2:half], rest[2:half]
    match = _HEADER.match(line)
    if not match:
        return None, None
    return _unquote(match["old"]).removeprefix(b"a/"), _unquote(match["new"]).removeprefix(b"b/")


def _header_fields(lines: list[bytes], start: int) -> tuple[PatchedFile | None, int]:
    """Read one file's header from ``lines[start:]``; returns the file and the index of the first line after it."""
    old, new = _header_names(lines[start].rstrip(b"\r")) if lines[start].startswith(b"diff --git ") else (None, None)
    index = start + 1 if lines[start].startswith(b"diff --git ") else start
    while index < len(lines) and not lines[index].startswith((b"diff --git ", b"@@ ", b"GIT binary patch")):
        line = lines[index].rstrip(b"\r")
        if line.startswith(b"new file mode "):
            old = None
        elif line.startswith(b"deleted file mode "):
            new = None
        elif line.startswith((b"rename from ", b"copy from ")):
            old = _unquote(line.split(b" from ", 1)[1])
        elif line.startswith((b"rename to ", b"copy to ")):
            new = _unquote(line.split(b" to ", 1)[1])
        elif line.startswith(b"--- "):
            old = _name(line[4:], b"a/")
        elif line.startswith(b"+++ "):
            return _file(old, _name(line[4:], b"b/")), index + 1
        index += 1
    return _file(old, new), index


def _file(old: bytes | None, new: bytes | None) -> PatchedFile | None:
    return None if old is None and new is None else PatchedFile(old, new)


def skip_hunk(lines: list[bytes], start: int) -> int:
    """The index after the hunk at ``start``: its body is counted, so that no line of it is taken for a header."""
    match = _HUNK.match(lines[start])
    if not match:
        return start + 1
    old, new = (int(count) if count is not None else 1 for count in match.groups())
    index = start + 1
    while index < len(lines) and (old > 0 or new > 0):
        kind = lines[index][:1]
        if kind == b"-":
            old -= 1
        elif kind == b"+":
            new -= 1
        elif kind != b"\\":
            old, new = old - 1, new - 1
        index += 1
    return index


def patched_files(diff: bytes) -> tuple[PatchedFile, ...]:
    """Every file that ``diff`` touches, in order, without repeats."""
    lines, files, index = diff.split(b"\n"), [], 0
    while index < len(lines):
        line = lines[index]
        if line.startswith(b"diff --git ") or _starts_plain_diff(lines, index):
            file, index = _header_fields(lines, index)
            if file is not None:
                files.append(file)
        elif line.startswith(b"@@ "):
            index = skip_hunk(lines, index)
        else:
            index += 1
    return tuple(dict.fromkeys(files))


def _starts_plain_diff(lines: list[bytes], index: int) -> bool:
    """Whether a file header without a ``diff --git`` line starts here."""
    return (
        lines[index].startswith(b"--- ") and lines[index + 1 : index + 2] != [] and lines[index + 1].startswith(b"+++ ")
    )
