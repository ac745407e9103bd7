"""What a worker does to grade a patch, and to make environments ready for that."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from anyio import to_thread

from swe_sdk.errors import SweError
from swe_sdk.executors.contract import Done
from swe_sdk.executors.place import Place
from swe_sdk.executors.policy_ref import PolicyRef
from swe_sdk.executors.provider_ref import ProviderRef
from swe_sdk.grading.settings import GradeSettings
from swe_sdk.grading.verify import grade
from swe_sdk.model.environment import Environment
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.model.record import Record
from swe_sdk.model.task import Task
from swe_sdk.sandbox.environments import prepare
from swe_sdk.sandbox.registry import get_provider
from swe_sdk.store.results import Results

GRADE, PREPARE = f"{__name__}:grade_patch", f"{__name__}:prepare_environments"
_log = logging.getLogger(__name__)


class GradeOrder(Record):
    """The whole input of a grade."""

    task: dict[str, Any]
    """All of it, hidden tests included (``Task.private``)."""
    patch: Patch
    provider: ProviderRef
    policy: PolicyRef
    settings: GradeSettings
    results: str
    """The results directory of who asks."""


class PrepareOrder(Record):
    """Environments that jobs will want."""

    provider: ProviderRef
    environments: tuple[Environment, ...]


async def grade_patch(order: dict[str, Any], place: Place) -> Done:
    """An Outcome; its log, patch and record are on disk, its line among the outcomes is for who asked to write.

    What was masked is measured again when it is asked for again. Raises ``ProviderUnavailable``.
    """
    asked = GradeOrder.model_validate(order)
    folder = place.folder(asked.results)
    outcome = await grade(
        Task.model_validate(asked.task),
        asked.patch,
        provider=await get_provider(await asked.provider.at(place)),
        policy=asked.policy.policy(),
        results=await to_thread.run_sync(_FilesOnly, folder),
        **asked.settings.model_dump(),
    )
    outcome = seen_from(asked.results, folder, outcome)
    return Done(outcome.model_dump(mode="json"), reusable=not outcome.masked)


async def prepare_environments(order: dict[str, Any], place: Place) -> None:
    """Build or fetch each environment; one that cannot be had is left to its jobs to report."""
    asked = PrepareOrder.model_validate(order)
    provider = await get_provider(await asked.provider.at(place))
    for environment in asked.environments:
        try:
            await prepare(provider, environment)
        except SweError as error:
            _log.warning("an environment could not be made ready on %s: %s", place.node, error)


def seen_from(asked: str, folder: Path, outcome: Outcome) -> Outcome:
    """With the paths of its files as they are for who asked."""
    if str(folder) == asked:
        return outcome
    there = {label: path.replace(str(folder), asked, 1) for label, path in outcome.artifacts.items()}
    return outcome.model_copy(update={"artifacts": there})


class _FilesOnly(Results):
    """Keeps the files of a grade. The list of outcomes has one writer, who is elsewhere."""

    def append(self, outcome: Outcome) -> None:
        """Nothing."""
