"""Shell lines made of the fields of an nv-internal-1 row; every value is quoted. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_PAIR = re.compile(rf'({_NAME})=("(?:[^"\\]|\\.)*"|\'[^\']*\'|(?:[^\s"\'\\]|\\.)*)(?:\s+|$)')
_OLD_FORM = re.compile(rf"({_NAME})\s+(.*)", re.DOTALL)
_CHECKOUT = re.compile(r"git checkout [0-9a-f]{7,40} -- .+")
_IN_DOUBLE_QUOTES = re.compile(r'(["`\\]|\$(?![A-Za-z_{]))')


def environment_lines(dockerfile: str) -> list[str]:
    """``export NAME="value"`` for each ``ENV`` of a Dockerfile, in order.

    ``$NAME`` and ``${NAME}`` in a value are expanded, as Docker does; nothing else in it is.
    """
    return [f'export {name}="{value}"' for name, value in _variables(dockerfile)]


def _variables(dockerfile: str) -> Iterator[tuple[str, str]]:
    for line in dockerfile.replace("\\\n", " ").split("\n"):
        words = line.strip().split(None, 1)
        if len(words) == 2 and words[0].upper() == "ENV":
            yield from _pairs(words[1].strip())


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """The variables of one ``ENV``: ``A=1 B="2 3"``, or the old form ``A all the rest``."""
    pairs = list(_PAIR.finditer(text))
    if pairs and "".join(pair[0] for pair in pairs) == text:
        yield from ((pair[1], _value(pair[2])) for pair in pairs)
    elif old := _OLD_FORM.fullmatch(text):
        yield old[1], _guarded(old[2])


def _value(word: str) -> str:
    if word.startswith("'"):
        return _guarded(word[1:-1]).replace("$", r"\$")
    inner = word[1:-1] if word.startswith('"') else word
    return _guarded(re.sub(r"\\(.)", r"\1", inner))


def _guarded(value: str) -> str:
    return _IN_DOUBLE_QUOTES.sub(r"\\\1", value)


def last_line(commands: str) -> str:
    """The last line that says something; the ones before it reset a repository that is fresh anyway."""
    return next((line.strip() for line in reversed(commands.split("\n")) if line.strip()), "")


def takes_tests_from_git(line: str) -> bool:
    """Whether a line brings the hidden tests from a later commit, which a box without that history does not have."""
    return _CHECKOUT.fullmatch(line) is not None


def test_command(runner: str, parser: str, files: Sequence[str]) -> str:
    """Run the row's script on the selected files, and its parser on what it printed.

    The scripts lie outside of the repository, the parser only once the tests are over. The output is shown as well.
    """
    return f"""\
folder="$(dirname "$SWE_SDK_REPORTS")"
printf %s {shlex.quote(runner)} > "$folder/run_script.sh"
bash "$folder/run_script.sh" {shlex.quote(",".join(files))} > "$folder/stdout.log" 2> "$folder/stderr.log"
test_exit_code=$?
cat "$folder/stdout.log" "$folder/stderr.log"
printf %s {shlex.quote(parser)} > "$folder/parsing_script.py"
"$(command -v python3 || command -v python)" "$folder/parsing_script.py" \\
  "$folder/stdout.log" "$folder/stderr.log" "$SWE_SDK_REPORTS/output.json"
(exit $test_exit_code)
"""
