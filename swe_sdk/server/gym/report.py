"""How an activation ended, as the agent server tells it: in the metadata of its response, where NeMo Gym lets it pass.

The resources server decides by it, with its own policy, what the verdict is.
"""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Mapping
from typing import Any

from pydantic import Field, ValidationError

from swe_sdk.agents.contract import AgentEnd
from swe_sdk.errors import InputError
from swe_sdk.exports.record import Turn
from swe_sdk.grading.classify import Failure
from swe_sdk.model.patch import Patch
from swe_sdk.model.policy import FailureKind, Stage
from swe_sdk.model.record import Record
from swe_sdk.server.patches import BYTES_FIELD, TEXT_FIELD

REPORT_FIELD = "swe_sdk"
"""Of the response's metadata; a JSON text, as its values are texts."""


class ReportedFailure(Record):
    """A :class:`~swe_sdk.grading.classify.Failure` on the wire."""

    kind: FailureKind
    stage: Stage
    reason: str
    evidence: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def of(cls, failure: Failure) -> ReportedFailure:
        """One of ours."""
        return cls(kind=failure.kind, stage=failure.stage, reason=failure.reason[:2000], evidence=failure.evidence)

    @property
    def failure(self) -> Failure:
        """As the policy table takes it."""
        return Failure(self.kind, self.stage, self.reason, self.evidence)


class AgentReport(Record):
    """What is known of an activation, beside the sandbox that it leaves."""

    agent: str = ""
    agent_version: str = ""
    model: str = ""
    end: AgentEnd | None = None
    """Without its patch, which stands in the metadata by itself."""
    met: ReportedFailure | None = None
    """An end that was no ordinary one: the policy decides what it means."""
    broke: ReportedFailure | None = None
    """What kept the activation from being a measurement."""
    flags: tuple[str, ...] = ()
    stages_s: dict[str, float] = Field(default_factory=dict)
    commands: int = 0
    commands_s: float = 0.0
    turns: tuple[Turn, ...] = ()


def response_of(report: AgentReport, patch: Patch | None = None) -> dict[str, Any]:
    """An object of the Responses API that carries the report, and the agent's own submission if it made one."""
    text = report.end.message if report.end else report.broke.reason if report.broke else ""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    name = secrets.token_hex(8)
    message = {"id": f"msg_{name}", "type": "message", "role": "assistant", "status": "completed", "content": content}
    return {
        "id": f"resp_{name}",
        "object": "response",
        "created_at": time.time(),
        "model": report.model or report.agent,
        "status": "failed" if report.broke else "completed",
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "output": [message],
        "metadata": {REPORT_FIELD: report.model_dump_json(ensure_ascii=True), **patch_fields(patch)},
    }


def patch_fields(patch: Patch | None) -> dict[str, str]:
    """A patch as metadata: text, or base64 where it is none."""
    if patch is None:
        return {}
    try:
        return {TEXT_FIELD: patch.data.decode()}
    except UnicodeDecodeError:
        return {BYTES_FIELD: base64.b64encode(patch.data).decode()}


def report_in(metadata: Mapping[str, Any] | None) -> AgentReport:
    """The report that a response carries; an empty one where another's agent has written it. ``InputError``."""
    told = (metadata or {}).get(REPORT_FIELD)
    if told is None:
        return AgentReport()
    try:
        return AgentReport.model_validate_json(told)
    except (ValidationError, TypeError) as error:
        raise InputError(f"response.metadata.{REPORT_FIELD} is no report of an agent server: {error}") from None
