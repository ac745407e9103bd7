"""How NeMo Gym's flat families apply patches, and how we do.

Theirs is one ``git apply --reject ... || true``: hunks that do not apply are dropped, and the rest is graded. Ours is
the same command without ``--reject``, so that a patch is in the tree as a whole or not at all; a second rung allows for
context that has moved.
"""

from __future__ import annotations

from swe_sdk.recipes.contract import Rung

_EXT = "--recount --ignore-space-change --ignore-whitespace"
_REBENCH = "--recount --ignore-space-change --whitespace=nowarn"
_NV = "--ignore-space-change --ignore-whitespace"


def _strict(flags: str) -> tuple[Rung, ...]:
    return (
        Rung(name="git-apply", command='git apply --verbose "$PATCH"'),
        Rung(name="git-apply-whitespace", command=f'git apply --verbose {flags} "$PATCH"'),
    )


def _legacy(flags: str) -> tuple[Rung, ...]:
    return (Rung(name="git-apply-reject", command=f'git apply {flags} "$PATCH"', tolerant=True),)


EXT_STRICT, EXT_LEGACY = _strict(_EXT), _legacy(f"--reject {_EXT}")
REBENCH_STRICT, REBENCH_LEGACY = _strict(_REBENCH), _legacy(f"--reject {_REBENCH}")
NV_STRICT, NV_LEGACY = _strict(_NV), _legacy(f"{_NV} --reject -v")
