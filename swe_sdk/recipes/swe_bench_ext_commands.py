"""Test commands of swe-bench-ext with what makes their runners write results for machines. Pure."""

from __future__ import annotations

import re
import shlex

from swe_sdk.recipes.swe_bench_ext_frameworks import RESULTS, framework_of

_SCRIPT = re.compile(r".*\.sh")
_STARTERS = frozenset({"bash", "sh", "zsh", "dash", "make", "tox", "nox", "just", "npm", "yarn", "pnpm"})
"""They start a runner by what is written elsewhere."""
_NO_RUNNERS = frozenset({"true", ":", "exit", "echo", "cat", "tee", "tail", "head", "grep"})
_OPERATORS = frozenset({";", "&&", "||", "|", "&", "(", ")"})
_PREFIXES = frozenset({"env", "time", "exec"})


def reads_files(name: str, command: str) -> bool:
    """Whether results come from files: the framework has some, and this command hands its flags on to the runner.

    Decided by the command alone, never by what a run printed or left out.
    """
    framework = framework_of(name, command)
    if framework is None:
        return False
    return bool(framework.reports) or (bool(framework.file) and _hands_flags_on(name, command))


def with_flags(name: str, command: str, folder: str = RESULTS) -> str:
    """The command with the framework's flags, or with what collects the reports that it writes anyway."""
    framework = framework_of(name, command)
    if framework is None:
        return command
    if framework.reports:
        return _collected(command, framework.reports)
    if not framework.flag or not _hands_flags_on(name, command):
        return command
    return f"{command.rstrip()} {framework.flag.format(dir=folder)}"


def _hands_flags_on(name: str, command: str) -> bool:
    """Whether what is put behind the command gets to the runner: not behind a script, a pipe or ``|| true``."""
    words = _last_command(command)
    if name == "unittest" and not {"pytest", "py.test"} & set(words):
        return False
    return bool(words) and words[0] not in _STARTERS | _NO_RUNNERS and not _SCRIPT.fullmatch(words[0])


def _collected(command: str, reports: str) -> str:
    """Reports that are older than the run are left: they were in the image, or in the patch."""
    return (
        f'touch "{RESULTS}/started"\n{command.rstrip()}\ntest_exit_code=$?\n'
        f'find . -type f -path {shlex.quote(reports)} -newer "{RESULTS}/started" | sort | '
        f'{{ n=0; while IFS= read -r report; do n=$((n + 1)); cp -- "$report" "{RESULTS}/report-$n.xml"; done; }}\n'
        "(exit $test_exit_code)"
    )


def _last_command(command: str) -> list[str]:
    """The words of the last simple command, without the variables set before it."""
    lexer = shlex.shlex((command.strip().splitlines() or [""])[-1], posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        for word in lexer:
            words = [] if word in _OPERATORS else [*words, word]
    except ValueError:  # a quote without an end: the shell will say so
        return []
    while words and (_is_assignment(words[0]) or words[0] in _PREFIXES):
        words = words[1:]
    return words


def _is_assignment(word: str) -> bool:
    return "=" in word and not word.startswith("-")
