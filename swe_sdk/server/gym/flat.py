"""The legacy variant: the agent server takes a flat row, drives the whole episode, and answers with a flat row."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any

from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.errors import InputError
from swe_sdk.exports.nemo_gym import nemo_gym_row
from swe_sdk.exports.record import RolloutRecord
from swe_sdk.model.ids import safe_name
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import EMPTY_PATCH
from swe_sdk.server.answering import Work
from swe_sdk.server.gym.contract import EpisodeRequest, TaskInput
from swe_sdk.server.gym.episodes import Episodes, Ran
from swe_sdk.server.gym.prompts import prompt_in
from swe_sdk.server.gym.report import report_in
from swe_sdk.server.models import ResponsesCreateParams
from swe_sdk.server.patches import patch_in_metadata
from swe_sdk.server.validation import validated

_TASKSET = "legacy"


class FlatRuns:
    """``POST /run`` of an agent server."""

    def __init__(self, episodes: Episodes, config: Mapping[str, Any]) -> None:
        self.episodes = episodes
        self._config = dict(config)
        """The ``instance_config`` of every row."""

    def work(self, row: Any, attempt: EpisodeId | None) -> Work:
        """What a row asks for, as an attempt or as the first one of a rollout of its own. Raises an ``InputError``."""
        request = episode_request(row, attempt)
        return partial(self._run, row, request)

    async def _run(self, row: dict[str, Any], request: EpisodeRequest) -> dict[str, Any]:
        return flat_row(row, request, await self.episodes.run(request), self._config)


def episode_request(row: Any, attempt: EpisodeId | None) -> EpisodeRequest:
    """The episode that a flat row asks for. Its task stands where it stands in a request of ``/verify``."""
    if not isinstance(row, dict) or not isinstance(row.get("responses_create_params"), dict):
        raise InputError("responses_create_params: a row has this object", remedy="post a row of a dataset")
    asked = validated(ResponsesCreateParams, row["responses_create_params"])
    metadata = asked.metadata or {}
    place = metadata if metadata.get("instance_id") is not None else row
    name = place.get("instance_id")
    if not isinstance(name, str) or not name:
        raise InputError("responses_create_params.metadata has no instance_id", remedy="give the task's id there")
    data = {key: value for key, value in row.items() if key not in ("responses_create_params", "response")}
    task_data = {"responses_create_params": {"metadata": metadata}} if place is metadata else data
    taskset = place.get("dataset_name")
    episode_id = attempt or EpisodeId(rollout_id=f"{safe_name(name)}.{secrets.token_hex(6)}")
    task_id = {"taskset": taskset if isinstance(taskset, str) and taskset else _TASKSET, "task_id": name}
    task_input = TaskInput(responses_create_params=asked, task_data=task_data)
    task = {"task_id": task_id, "task_input": task_input}
    return validated(EpisodeRequest, {"episode_id": episode_id, "task": task})


def flat_row(row: Mapping[str, Any], request: EpisodeRequest, ran: Ran, config: Mapping[str, Any]) -> dict[str, Any]:
    """The row again, the verification, and the frozen fields of NeMo Gym's SWE rows."""
    told, params = ran.verification, request.task.task_input.responses_create_params
    metadata = told["response"].get("metadata") or {}
    report, outcome = report_in(metadata), Outcome.model_validate(told["outcome"])
    record = RolloutRecord(
        rollout_id=request.episode_id.rollout_id,
        instance_id=outcome.instance_id,
        attempt=request.episode_id.attempt + 1,
        agent=report.agent,
        agent_version=report.agent_version,
        model=report.model,
        problem_statement=prompt_in(params),
        outcome=outcome,
        patch=patch_in_metadata(metadata) or EMPTY_PATCH,
        end_reason=report.end.reason if report.end else "",
        queued_s=ran.queued_s,
        stages_s={**ran.stages_s, **report.stages_s},
        stages_at=ran.stages_at,
        turns=report.turns,
        config=dict(config),
    )
    fields = nemo_gym_row(record).model_dump(mode="json")
    verdict = {name: value for name, value in told.items() if name != "outcome"}
    return {**row, **fields, **verdict}
