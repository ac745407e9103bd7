"""The patches that a results directory holds, with what came of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from swe_sdk.grading.regrades import Stored
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.store.results import read_outcomes


def stored_in_results(path: Path) -> tuple[list[Stored], dict[str, str]]:
    """The patches of a results directory in the order of its outcomes, and why others are not among them.

    A patch is found beside its log wherever the directory has been moved to. It is not taken where its bytes are not
    those that the outcome is about. Where one patch of a task has several outcomes, the last one counts; where a task
    has several patches, they are called ``id``, ``id#2``, ... Raises ``InputError`` where there are no outcomes.
    """
    last: dict[tuple[str, str], Outcome] = {}
    for outcome in read_outcomes(path):
        last[outcome.instance_id, outcome.patch.sha256] = outcome
    found, skipped, seen = [], {}, Counter[str]()
    for outcome in last.values():
        seen[outcome.instance_id] += 1
        number = seen[outcome.instance_id]
        name = outcome.instance_id if number == 1 else f"{outcome.instance_id}#{number}"
        patch = _patch_of(outcome, path)
        if patch is None:
            skipped[name] = "its patch was not kept"
        elif patch.sha256 != outcome.patch.sha256:
            skipped[name] = "the patch that lies there is not the one that was graded"
        else:
            found.append(Stored(name, patch, outcome))
    return found, skipped


def _patch_of(outcome: Outcome, path: Path) -> Patch | None:
    told = outcome.artifacts.get("patch")
    if told is None:
        return None
    moved = path.joinpath(*Path(told).parts[-4:])  # artifacts/<task>/<key>-<n>/patch.diff
    for file in (moved, Path(told)):
        if file.is_file():
            return Patch(data=file.read_bytes())
    return None
