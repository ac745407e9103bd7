"""Names of families with the rules that hold: ``swe-rebench@legacy``.

A family by its bare name follows our own rules, the stricter ones. What stands after ``@`` names the harness whose
rules it follows instead, defects included; it is part of the family's name so that tasks, content keys, stored outcomes
and command lines all say which rules gave a verdict.
"""

from __future__ import annotations

from swe_sdk.errors import InputError, did_you_mean


def split_family(name: str) -> tuple[str, str]:
    """Family and compat (empty for our own rules)."""
    family, _, compat = name.partition("@")
    return family, compat


def named(family: str, compat: str) -> str:
    """The name under which tasks say which rules hold."""
    return f"{family}@{compat}" if compat else family


def checked(compat: str, known: tuple[str, ...], family: str) -> str:
    """``compat`` itself, or ``InputError`` where the family has no such rules."""
    if compat and compat not in known:
        raise InputError(f"{family} has no rules named {compat!r}", remedy=did_you_mean(compat, known))
    return compat
