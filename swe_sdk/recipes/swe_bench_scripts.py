"""The ``eval_script`` of a SWE-bench 5.x row, taken apart. Pure.

Such a script prepares the shell, resets the test files and applies the test patch from a here-document, and then runs
the tests between two marker lines. The grader does the reset and the patch itself, so both are taken out; so are
``git status``, ``git show`` and ``git diff``, which only print (and would print a whole repository where its history
was scrubbed).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

_MARKER = r"""\s*(?::|echo)\s+(['"])>>>>> %s Test Output\1\s*"""
_START = re.compile(_MARKER % "Start")
_END = re.compile(_MARKER % "End")
_HEREDOC = re.compile(r"""(?<!<)<<(?P<tabs>-?)\s*(?P<quote>['"\\]?)(?P<word>[A-Za-z_]\w*)""")
_PRINTS_ONLY = re.compile(r"git (?:status|show|-c core\.fileMode=false diff(?: [0-9a-f]{7,40})?)\s*")
_COMMIT = re.compile(r"[0-9a-f]{7,40}|HEAD")
_RECORDS_EXIT_CODE = re.compile(r"SWEBENCH_TEST_EXIT_CODE=\$\?\s*")


class ScriptError(ValueError):
    """The script is not of the known form; the message says what was not found."""


@dataclass(frozen=True)
class EvalScript:
    """The parts of an evaluation script. ``test_patch`` is None where it applies none (binary files alone)."""

    prelude: str
    test_command: str
    test_patch: str | None


@dataclass(frozen=True)
class _Command:
    """A line of a script, with the lines of the here-document that it opens and the one that ends it."""

    line: str
    body: tuple[str, ...] | None = None
    end: str = ""

    @property
    def text(self) -> str:
        return self.line if self.body is None else "\n".join((self.line, *self.body, self.end))


def split_eval_script(script: str, *, base_commit: str | None, test_files: frozenset[str]) -> EvalScript:
    """The parts of ``script``; ``test_files`` are the paths that the test patch touches. Raises ScriptError."""
    commands = list(_commands(script.split("\n")))
    start = _index(commands, _START, 0, ": '>>>>> Start Test Output'")
    end = _index(commands, _END, start + 1, ": '>>>>> End Test Output'")
    patches = [command for command in commands[:start] if _applies_patch(command)]
    if len(patches) > 1:
        raise ScriptError("it applies more than one patch before the start marker")
    prelude = [
        command.text
        for index, command in enumerate(commands[:start])
        if not (index == 0 and command.line.startswith("#!"))
        and not _PRINTS_ONLY.fullmatch(command.line)
        and not _applies_patch(command)
        and not _resets_tests(command.line, base_commit, test_files)
    ]
    tests = [command.text for command in commands[start + 1 : end] if not _RECORDS_EXIT_CODE.fullmatch(command.line)]
    if not "".join(tests).strip():
        raise ScriptError("there is no command between the markers")
    return EvalScript("\n".join(prelude), "\n".join(tests), _patch_text(patches[0]) if patches else None)


def _commands(lines: list[str]) -> Iterator[_Command]:
    index = 0
    while index < len(lines):
        end = _heredoc_end(lines, index)
        if end is None:
            yield _Command(lines[index])
            index += 1
        else:
            yield _Command(lines[index], tuple(lines[index + 1 : end]), lines[end])
            index = end + 1


def _heredoc_end(lines: list[str], index: int) -> int | None:
    """The line that ends the here-document opened at ``index``; None where none is opened there, or it has no end."""
    match = _HEREDOC.search(lines[index])
    if match is None:
        return None
    for end in range(index + 1, len(lines)):
        if (lines[end].lstrip("\t") if match["tabs"] else lines[end]) == match["word"]:
            return end
    return None


def _index(commands: list[_Command], marker: re.Pattern[str], first: int, shown: str) -> int:
    for index in range(first, len(commands)):
        if commands[index].body is None and marker.fullmatch(commands[index].line):
            return index
    raise ScriptError(f"there is no line {shown}")


def _applies_patch(command: _Command) -> bool:
    return command.body is not None and command.line.startswith("git apply ")


def _patch_text(command: _Command) -> str:
    return "\n".join((*(command.body or ()), ""))


def _resets_tests(line: str, base_commit: str | None, test_files: frozenset[str]) -> bool:
    """Whether the line does nothing but bring test files back or remove them. Raises ScriptError where it does both."""
    try:
        words = shlex.split(line)
    except ValueError:  # a quote that ends on a later line
        return False
    parts = [list(part) for is_and, part in groupby(words, "&&".__eq__) if not is_and]
    resets = [_is_reset(part, line, base_commit, test_files) for part in parts]
    if any(resets) and not all(resets):
        raise ScriptError(f"one line resets test files and does something else: {line}")
    return any(resets)


def _is_reset(words: list[str], line: str, base_commit: str | None, test_files: frozenset[str]) -> bool:
    """Whether this is ``git checkout [COMMIT] test files...`` or ``rm -f test files...``.

    ``git checkout BASE`` without a path counts too: swebench 4.x writes it for a test patch that only adds files, where
    it resets the whole tree and the model's patch with it.
    """
    if words[:2] not in (["git", "checkout"], ["rm", "-f"]):
        return False
    paths = [word for word in words[2:] if word != "--"]
    if words[0] == "git" and paths and (paths[0] == base_commit or _COMMIT.fullmatch(paths[0])):
        if paths == [base_commit]:
            return True
        del paths[0]
    others = [path for path in paths if path not in test_files]
    if others and len(others) < len(paths):
        raise ScriptError(f"one line resets test files and {others[0]!r}, which the test patch does not touch: {line}")
    return bool(paths) and not others
