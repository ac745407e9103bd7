"""Under which file names the image of a task is kept, in all the ways that the families of tasks have.

A published image is called ``swebench/sweb.eval.x86_64.django_1776_django-11099:latest``; its .sif file is called like
that, or like the instance (``django__django-11099``), with ``__`` as it is or as ``_1776_`` or ``_s_`` (which a
registry takes), in lower case or not, with the tag or without, and sometimes with more words around it. R2E-Gym calls
the image of ``org__repo-HASH`` ``repo_final_HASH``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_OFFICIAL = re.compile(r"^sweb\.eval\.(?:x86_64|arm64)\.")
_SEPARATORS = ("__", "_1776_", "_s_")
_R2E = re.compile(r"^[^/]+?__(.+)-([^-]+)$")


def exact_stems(image: str) -> tuple[str, ...]:
    """File names without ``.sif``, the likeliest first: ``image`` is the name of an image or of an instance."""
    name, tag = _name_and_tag(image)
    prefix = found.group() if (found := _OFFICIAL.match(name)) else ""
    names = [name, *(f"{prefix}{each}" for each in _variants(name)), *_variants(name)]
    if tag is None:
        return _unique(names)
    tagged = [f"{each}_{tag}" for each in names]
    return _unique([*tagged, *names] if tag == "latest" else tagged)


def search_terms(image: str) -> tuple[str, ...]:
    """What to look for within file names, one after the other, where no exact name is there."""
    name, tag = _name_and_tag(image)
    variants = _variants(name)
    return _unique(variants if tag in (None, "latest") else (f"{each}_{tag}" for each in variants))


def holds(stem: str, term: str) -> bool:
    """Whether ``term`` is in a file's name as a whole: ``django-1109`` is not in ``django-11099``."""
    return re.search(rf"(?:^|[._-]){re.escape(term)}(?:$|[._])", stem) is not None


def _name_and_tag(image: str) -> tuple[str, str | None]:
    last = image.partition("@")[0].rpartition("/")[2]
    name, colon, tag = last.partition(":")
    return name, tag if colon else None


def _variants(name: str) -> tuple[str, ...]:
    instance = _OFFICIAL.sub("", name)
    written = next((separator for separator in _SEPARATORS if separator in instance), None)
    plain = instance.replace(written, "__", 1) if written else instance
    forms = [instance, plain, plain.lower()]
    for separator in _SEPARATORS[1:]:
        other = plain.replace("__", separator, 1)
        forms += [other, other.lower()]
    if found := _R2E.match(plain):
        forms.append(f"{found[1].lower()}_final_{found[2]}")
    return _unique(forms)


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
