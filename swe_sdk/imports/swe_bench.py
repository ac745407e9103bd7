"""Run directories of the official SWE-bench harness: ``logs/run_evaluation/<run>/<model>/<instance>/``.

In an instance's folder are ``report.json`` (the verdict), ``patch.diff``, ``test_output.txt``, ``run_instance.log`` and
``eval.sh``. Where the harness failed there is no report: such a rollout is masked here, unless its log says that the
patch did not apply.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from swe_sdk.errors import InputError
from swe_sdk.imports.record import Found, Imported, ImportedFile, Skipped, as_name, as_text, mapping
from swe_sdk.model.outcome import Mask, Outcome, PatchReport, TestReport
from swe_sdk.model.patch import Patch
from swe_sdk.store.events import ArtifactRole

_FILES: dict[str, ArtifactRole] = {
    "patch.diff": "patch",
    "test_output.txt": "log",
    "run_instance.log": "log",
    "eval.sh": "other",
    "report.json": "outcome",
}
_MARKS = ("report.json", "run_instance.log", "test_output.txt")
_PATCH_FAILED = b">>>>> Patch Apply Failed"
_FAMILY = "swe-bench"
_LOG_BYTES = 1 << 20


def read_swe_bench(path: Path) -> Found:
    """Each instance's folder in or below ``path``."""
    for folder in instance_folders(path):
        try:
            yield _imported(folder)
        except (ValueError, OSError) as error:
            yield Skipped(str(folder), str(error))


def instance_folders(path: Path) -> list[Path]:
    """Folders of instances in or below ``path``, by name."""
    return sorted({file.parent for mark in _MARKS for file in path.rglob(mark)})


def _imported(folder: Path) -> Imported:
    instance, model, evaluation = (as_name(each.name) for each in (folder, folder.parent, folder.parent.parent))
    files = [folder / name for name in _FILES if (folder / name).is_file() and not (folder / name).is_symlink()]
    times = [file.stat().st_mtime for file in files]
    return Imported(
        instance_id=instance,
        outcome=_outcome(folder, instance),
        model=model,
        files=tuple(ImportedFile(file.name, _FILES[file.name], file) for file in files),
        started_at=min(times),
        ended_at=max(times),
        tags=(("evaluation", evaluation),),
    )


def _outcome(folder: Path, instance: str) -> Outcome:
    patch_file = folder / "patch.diff"
    is_own = patch_file.is_file() and not patch_file.is_symlink()
    patch = Patch(data=patch_file.read_bytes() if is_own else b"")
    if (folder / "report.json").is_file():
        return _reported(_report(folder / "report.json", instance), instance, patch)
    return _unreported(_end_of(folder / "run_instance.log"), instance, patch)


def _report(path: Path, instance: str) -> dict[str, Any]:
    report = mapping(json.loads(path.read_bytes()))
    found = report.get(instance, report)  # very old ones are not keyed by the instance
    if not isinstance(mapping(found).get("resolved"), bool):
        raise InputError("report.json says not whether it is resolved")
    return mapping(found)


def _reported(report: dict[str, Any], instance: str, patch: Patch) -> Outcome:
    resolved = report["resolved"] is True
    statuses = mapping(report.get("tests_status"))
    lists = [dict(_statuses(mapping(statuses.get(name)))) for name in ("FAIL_TO_PASS", "PASS_TO_PASS")]
    applied = report.get("patch_successfully_applied")
    return Outcome(
        instance_id=instance,
        family=_FAMILY,
        status="resolved" if resolved else "unresolved",
        reward=1.0 if resolved else 0.0,
        patch=PatchReport(
            exists=report.get("patch_exists") is True or patch.exists,
            applied=applied if isinstance(applied, bool) else None,
            sha256=patch.sha256,
        ),
        tests=TestReport(fail_to_pass=lists[0], pass_to_pass=lists[1]),
        flags=("imported",),
    )


def _statuses(tests: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key, status in (("success", "PASSED"), ("failure", "FAILED")):
        names = tests.get(key)
        for name in names if isinstance(names, list) else ():
            yield as_text(name), status


def _unreported(log: bytes, instance: str, patch: Patch) -> Outcome:
    """Without a report there is a verdict only on a patch that did not apply."""
    is_unappliable = _PATCH_FAILED in log
    reason = "the patch does not apply" if is_unappliable else "the harness has left no report.json"
    mask = None if is_unappliable else Mask(kind="evaluator_failed", stage="tests", reason=reason)
    return Outcome(
        instance_id=instance,
        family=_FAMILY,
        status="unresolved" if is_unappliable else "masked",
        reward=0.0,
        mask=mask,
        patch=PatchReport(exists=patch.exists, applied=False if is_unappliable else None, sha256=patch.sha256),
        reason=reason,
        flags=("imported",),
    )


def _end_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _LOG_BYTES, 0))
            return file.read()
    except FileNotFoundError:
        return b""
