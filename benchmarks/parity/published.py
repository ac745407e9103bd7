"""Figures that others have published for SWE-bench Verified, and what this run can say to each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.parity.grades import Grader
from benchmarks.report import grid

_VERIFIED = 500
MISSES = (
    "astropy__astropy-7606",
    "astropy__astropy-8707",
    "astropy__astropy-8872",
    "django__django-10097",
    "sphinx-doc__sphinx-8120",
    "sphinx-doc__sphinx-8265",
    "sphinx-doc__sphinx-8269",
)
"""The seven of Verified that NeMo Gym's flat grading leaves unresolved with the gold patch."""
NAMED = ("pytest-dev__pytest-7982", "astropy__astropy-13453")
"""Those of which a verdict like the official one was reported by name."""


@dataclass(frozen=True)
class _Claim:
    what: str
    published: str
    kind: str
    ids: tuple[str, ...] = ()
    """Of the instances that it is about; none: all."""


_CLAIMS = (
    _Claim("gold resolves, docker and apptainer alike", "493 of 500, the same ones", "gold"),
    _Claim("gold resolves, harness nested in the box", "490 of 500", "gold"),
    _Claim("gold resolves, release 0.7.0", "492 of 500", "gold"),
    _Claim("an empty patch resolves", "0 of 500", "empty"),
    _Claim("gold does not resolve", "the seven below", "gold", MISSES),
    _Claim("gold resolves as officially", "pytest-7982, astropy-13453", "gold", NAMED),
)


def comparison(graders: Sequence[Grader]) -> str:
    """A table of the published figures and of what was found here, by each grader."""
    lines = [(claim.what, claim.published, _here(claim, graders)) for claim in _CLAIMS]
    return grid(("NeMo Gym, SWE-bench Verified", "published", "here"), lines)


def _here(claim: _Claim, graders: Sequence[Grader]) -> str:
    """Equal findings of several graders are said once."""
    found: dict[str, list[str]] = {}
    for grader in graders:
        verdicts = {
            name: grade.resolved
            for (name, kind), grade in grader.grades.items()
            if kind == claim.kind and (not claim.ids or name in claim.ids)
        }
        if verdicts:
            found.setdefault(f"{sum(v is True for v in verdicts.values())} of {len(verdicts)}", []).append(grader.name)
    if len(found) == 1:
        return f"{next(iter(found))}, by all graders"
    return "; ".join(f"{count} by {', '.join(names)}" for count, names in found.items()) or "not run here"


def not_run(
    published: Collection[str], rebuilt: Collection[str], verified: Iterable[str], absent: Mapping[str, str]
) -> str:
    """What was left out. ``published`` and ``rebuilt`` were graded, on images of others and on our own; ``verified``
    are the ids of Verified that are known here; ``absent`` says why tasks of the file were left out.
    """
    graded = {*published, *rebuilt}
    missing = sorted(set(verified) - graded)
    lines = [f"- {name}: {why}" for name, why in sorted(absent.items()) if name not in missing]
    lines.append(
        f"- Graded of the {_VERIFIED} instances of Verified: {len(published)} on their published images, and"
        f" {len(rebuilt)} on images that were built here from a source distribution near their base commit. The images"
        f" of the other {_VERIFIED - len(graded)} are not on this machine:"
    )
    lines += [f"    - {repo}: {numbers}" for repo, numbers in _by_repository(missing)]
    lines.append(f"    - {_VERIFIED - len(graded) - len(missing)} whose rows are not here either")
    return "\n".join(lines)


def _by_repository(ids: Iterable[str]) -> Iterable[tuple[str, str]]:
    found: dict[str, list[str]] = {}
    for name in ids:
        repo, _, number = name.rpartition("-")
        found.setdefault(repo.partition("__")[2], []).append(number)
    return ((repo, ", ".join(sorted(numbers, key=int))) for repo, numbers in found.items())
