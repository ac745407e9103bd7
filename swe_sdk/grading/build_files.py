"""Changes of build files that cannot bend a verdict: what an honest patch does that adds a file or a dependency. Pure.

A build file decides how the hidden tests run, so a submission that changes one is graded a second time without the
change. Where all that a change does is to name the submission's own new sources beside others, or to declare what the
package itself is made of, that would only take away what honest code needs.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

MAX_BYTES = 1 << 18
"""Of a build file; changes of larger ones are never harmless."""
_MAX_TOKENS = 20_000

_LISTS = re.compile(r"(?:GNU)?[Mm]akefile(?:\.(?:am|in))?|.*\.(?:mk|mak|cmake)|CMakeLists\.txt")
_HERE = re.compile(r"\A(?:\./|\$\{(?:CMAKE_CURRENT_SOURCE_DIR|CMAKE_CURRENT_LIST_DIR)\}/|\$[({]srcdir[)}]/)")
_SOURCE = re.compile(r"(?:\.\./)*[\w+-][\w+/.-]*\.(?P<suffix>c|cc|cpp|cxx|m|mm|f90|s|S|h|hh|hpp|hxx|inc|o|lo|obj)")
_KINDS = {**dict.fromkeys(("o", "lo", "obj"), "object"), **dict.fromkeys(("h", "hh", "hpp", "hxx", "inc"), "header")}
_TOKEN = re.compile(r"\n|(?:\$[({]\w+[)}]|[^\s()\"';=:,\[\]])+|[()\"';=:,\[\]]")
_COMMENT = re.compile(r"#[^\n]*")


@dataclass(frozen=True)
class Change:
    """A changed build file; ``before`` is empty where it is new.

    ``added`` and ``removed`` are paths of the submission's own: none of the hidden tests, none of a runner.
    """

    path: bytes
    before: bytes
    after: bytes
    added: Collection[bytes] = ()
    removed: Collection[bytes] = ()

    @property
    def is_harmless(self) -> bool:
        """Whether it says nothing new of how tests run."""
        if len(self.before) > MAX_BYTES or len(self.after) > MAX_BYTES:
            return False
        try:
            name, old, new = (part.decode("utf-8") for part in (self.path, self.before, self.after))
        except UnicodeDecodeError:
            return False
        base = posixpath.basename(name)
        if base == "Cargo.toml":
            return _same_crate(old, new)
        if base == "go.mod":
            return bool(old) and _of_go(old) == _of_go(new)
        if not old or _LISTS.fullmatch(base) is None:
            return False
        named = _Names(posixpath.dirname(name), frozenset(self.added), frozenset(self.removed))
        return _only_lists(_tokens(base, old), _tokens(base, new), named)


@dataclass(frozen=True)
class _Names:
    """Which files the words of a build file in ``folder`` may name."""

    folder: str
    added: frozenset[bytes]
    removed: frozenset[bytes]

    def hold(self, token: str, paths: frozenset[bytes]) -> bool:
        """Whether a word names one of ``paths``, or what is compiled from it."""
        word = _HERE.sub("", token, count=1)
        if _SOURCE.fullmatch(word) is None:
            return False
        places = {posixpath.normpath(word), posixpath.normpath(posixpath.join(self.folder, word))}
        if _kind(word) != "object":
            return any(place.encode() in paths for place in places)
        stems = {posixpath.splitext(place)[0].encode() for place in places}
        return any(path.rpartition(b".")[0] in stems and _kind(path.decode("latin-1")) == "source" for path in paths)


def _kind(word: str) -> str | None:
    match = _SOURCE.fullmatch(_HERE.sub("", word, count=1))
    return None if match is None else _KINDS.get(match["suffix"], "source")


def _tokens(name: str, text: str) -> list[str]:
    """The words and marks of a build file. Where a line ends counts for make, and behind what may be a comment."""
    joined = re.sub(r"\\\r?\n", " ", text)
    if "akefile" in name or name.endswith((".mk", ".mak")):
        return _TOKEN.findall(joined)
    bare = [line if '"' in line else _COMMENT.sub("", line) for line in joined.splitlines()]
    comments = [line[len(left) :] for line, left in zip(joined.splitlines(), bare, strict=True)]
    tokens = _TOKEN.findall("\n".join(bare))
    listed = tokens if any("#" in line for line in bare) else [each for each in tokens if each.strip()]
    return [*listed, *filter(None, comments)]


def _only_lists(old: list[str], new: list[str], named: _Names) -> bool:
    """Whether all that differs are names of the submission's own files, each beside another one of its kind."""
    if max(len(old), len(new)) > _MAX_TOKENS:
        return False
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        sides = ((old, i1, i2, named.removed), (new, j1, j2, named.added))
        if not all(_is_part_of_list(tokens, start, end, named, paths) for tokens, start, end, paths in sides):
            return False
    return True


def _is_part_of_list(tokens: list[str], start: int, end: int, named: _Names, paths: frozenset[bytes]) -> bool:
    words = tokens[start:end]
    around = {_kind(token) for token in (*tokens[max(0, start - 1) : start], *tokens[end : end + 1])}
    kinds = {_kind(word) for word in words}
    return not words or (all(named.hold(word, paths) for word in words) and not around.isdisjoint(kinds))


_PACKAGE = frozenset(
    (
        *("name", "version", "edition", "authors", "description", "license", "license-file", "readme", "repository"),
        *("homepage", "documentation", "keywords", "categories", "rust-version", "publish", "include", "exclude"),
        "metadata",
    )
)
_OF_RUST = frozenset(("std", "core", "alloc", "test", "proc_macro"))


def _same_crate(old: str, new: str) -> bool:
    try:
        return _of_cargo(tomllib.loads(old)) == _of_cargo(tomllib.loads(new))
    except (tomllib.TOMLDecodeError, RecursionError):
        return False


def _of_cargo(table: dict[str, Any]) -> dict[str, Any]:
    """What a Cargo.toml says besides how the package is called, its features and the crates that it is made of.

    The crates come from the registry's copy on the machine or from folders of the repository, whose own build scripts
    and manifests are looked at by themselves.
    """
    rest = {name: value for name, value in table.items() if name not in ("dependencies", "features", "package")}
    package, crates = table.get("package", {}), table.get("dependencies", {})
    rest["package"] = _left(package, _PACKAGE.__contains__)
    rest["dependencies"] = _left(crates, lambda name: name not in _OF_RUST)
    return rest


def _left(table: Any, is_known: Callable[[str], bool]) -> Any:
    return {k: v for k, v in table.items() if not is_known(k)} if isinstance(table, dict) else table


def _of_go(text: str) -> list[str]:
    """The lines of a go.mod besides what it requires: replaced modules, above all."""
    bare = re.sub(r"^\s*require\s*\([^)]*\)", "", re.sub(r"//[^\n]*", "", text), flags=re.MULTILINE)
    lines = (" ".join(line.split()) for line in bare.splitlines())
    return [line for line in lines if line and not line.startswith("require ")]
