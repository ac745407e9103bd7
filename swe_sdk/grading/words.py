"""The words of a test command."""

from __future__ import annotations

import shlex


def shell_words(command: str) -> list[str]:
    """Words and operators (``;``, ``&&``, ``|``, ``(``) of shell lines, unquoted; never raises."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:  # a quote without an end: the shell will say so
        return command.split()
