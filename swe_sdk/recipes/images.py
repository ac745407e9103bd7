"""From ``container_formatter`` and an instance id to an image, as NeMo Gym looks for one.

A formatter is ``docker://swebench/sweb.eval.x86_64.{instance_id}``, or the path of a .sif file with the same gap. Files
are looked for by the id as it is, then with ``_1776_`` and ``_s_`` for ``__`` (as it is and in lower case), then by
R2E-Gym's name; first exactly, formatter by formatter, then anywhere in a file's name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_GAP = "{instance_id}"
_DOCKER = "docker://"
_R2E = re.compile(r"^[^/]+?__(.+)-([^-]+)$")


def sif_terms(instance_id: str) -> tuple[str, ...]:
    """What may stand for an instance in the name of its .sif file, the likeliest first."""
    terms = [instance_id]
    for separator in ("_1776_", "_s_"):
        other = instance_id.replace("__", separator)
        terms += [other, other.lower()]
    if found := _R2E.match(instance_id):
        terms.append(f"{found[1].lower()}_final_{found[2]}")
    return tuple(dict.fromkeys(terms))


def formatted_image(formatters: Sequence[str], instance_id: str) -> str | None:
    """The image by the first formatter that leads to one: a .sif file that is there, or a name of a registry.

    None where there is no formatter; the first path where none of the files is there, so that the provider names it.
    """
    paths = [each for each in formatters if not each.startswith(_DOCKER)]
    found = _exact(paths, instance_id) or _anywhere(paths, instance_id)
    if found is not None:
        return str(found)
    docker = next((each for each in formatters if each.startswith(_DOCKER)), None)
    if docker is not None:
        return docker.removeprefix(_DOCKER).replace(_GAP, instance_id.replace("__", "_1776_").lower())
    return paths[0].replace(_GAP, instance_id) if paths else None


def _exact(paths: Sequence[str], instance_id: str) -> Path | None:
    named = (Path(path.replace(_GAP, term)) for path in paths for term in sif_terms(instance_id))
    return next((path for path in named if _is_file(path)), None)


def _anywhere(paths: Sequence[str], instance_id: str) -> Path | None:
    """The first file, by name, that holds a term; ``2`` is not found in ``12``."""
    for term in sif_terms(instance_id):
        whole = re.compile(rf"(?:^|[._-]){re.escape(term)}(?:$|[._-])")
        for path in paths:
            found = sorted(file for file in _sif_files(Path(path).parent) if whole.search(file.stem))
            if found:
                return found[0]
    return None


def _sif_files(folder: Path) -> list[Path]:
    try:
        return list(folder.glob("*.sif"))
    except (OSError, ValueError):  # a folder that cannot be read, or a name that cannot be one
        return []


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
