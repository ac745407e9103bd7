"""Results of Django's test runner (unittest with ``-v 2``).

Behaviour (not code) follows ``parse_log_django`` of swebench 5.0.2, with one difference: on a line that is a heading
and no more (``FAIL:`` or ``ERROR:`` without a test after it) the official parser stops with an IndexError, which makes
the log ungradable; this one skips that heading.

Quirks that official ids rely on: the id is all that stands before `` ... ``, so a test with a docstring goes by the
docstring and two tests with one docstring share an id; and a line that starts with ``ok`` passes the last named test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from swe_sdk.recipes.parsers.status import ERROR, FAILED, PASSED, SKIPPED

_DOTS = " ... "
_SKIP = " ... skipped"
_OK = (" ... ok", " ... OK", " ...  OK")
_BAD = (("FAIL:", " ... FAIL", FAILED), ("ERROR:", " ... ERROR", ERROR))
_STARTS = ("FAIL:", "ERROR:", "ok")
_VERSION_TEST = "--version is equivalent to version"
_GLUED = "Applying sites.0002_alter_domain_unique...test_no_migrations"


def parse_django(log: str) -> dict[str, str]:
    """Verdict lines (``id ... ok``), headings (``FAIL: id``) and interrupted verdicts to ``{id: status}``."""
    found: dict[str, str] = {}
    named: str | None = None
    with_version = _VERSION_TEST in log
    for line in log.split("\n"):
        if with_version and _VERSION_TEST in line:
            found[_VERSION_TEST] = PASSED
        if _DOTS in line:
            line = line.strip()
            named = line.partition(_DOTS)[0] if _DOTS in line else named
            _read(_unglued(line), found)
        elif not (line := line.strip()).startswith(_STARTS):
            continue
        else:
            _read(line, found)
        if named is not None and line.startswith("ok"):
            found[named] = PASSED
    found.update((name, PASSED) for opening, closing in _INTERRUPTIONS for name in _cut_names(log, opening, closing))
    return found


def _read(line: str, found: dict[str, str]) -> None:
    """The verdicts in one line without space around it; one line can hold several."""
    for ending in _OK:
        if line.endswith(ending):
            found[line[: -len(ending)]] = PASSED
    if _SKIP in line:
        found[line.partition(_SKIP)[0]] = SKIPPED
    for heading, ending, status in _BAD:
        if line.endswith(ending):
            found[line.partition(ending)[0]] = status
        if line.startswith(heading):
            found.update((name, status) for name in line.split(None, 2)[1:2])


def _unglued(line: str) -> str:
    """A passing line without the migration message that one known test has before its name."""
    if line.startswith(_GLUED) and line.endswith(_OK):
        return line.partition("...")[2].strip()
    return line


_Closing = Callable[[str, int], int]


def _cut_names(log: str, opening: str, closing: _Closing) -> Iterator[str]:
    """Names of tests whose ``ok`` comes only after a message: `` ... <opening>``, more, and a line of ``ok``.

    ``closing`` gets the log and the place after ``opening`` and gives the place after that ``ok``, or -1.
    """
    least = 0
    at = log.find(opening)
    while at >= 0:
        name_end = at - len(_DOTS)
        start = log.rfind("\n", 0, max(name_end, 0)) + 1
        end = closing(log, at + len(opening)) if start >= least and _is_dots(log[max(name_end, 0) : at]) else -1
        if end >= 0:
            yield log[start:name_end]
            least = end
        at = log.find(opening, max(end, at + 1))


def _is_dots(text: str) -> bool:
    """Whether this is three dots between any two white-space characters."""
    return len(text) == len(_DOTS) and text[1:4] == "..." and text[0].isspace() and text[4].isspace()


def _after_ok(log: str, at: int) -> int:
    """The place after a line of ``ok`` whose line break before is at ``at``, or -1."""
    end = at + 3
    return end if log.startswith("\nok", at) and log[end : end + 1] in ("", "\n") else -1


def _after_installed(log: str, at: int) -> int:
    tail = " silenced)."
    while (at := log.find(tail, at)) >= 0:
        end = _after_ok(log, at + len(tail))
        if end >= 0:
            return end
        at += 1
    return -1


def _after_server_error(log: str, at: int) -> int:
    end = log.find("\n", at)
    return _after_ok(log, end) if end > at and log[end - 1] == "/" else -1


_INTERRUPTIONS: tuple[tuple[str, _Closing], ...] = (
    ("Testing against Django installed in ", _after_installed),
    ("Internal Server Error: /", _after_server_error),
    ("System check identified no issues (0 silenced)", _after_ok),
)
