"""What goes over the wire.

``POST /verify`` speaks NeMo Gym: its ``BaseVerifyRequest`` and ``BaseVerifyResponse``, field for field, so that its
agents can post here. ``POST /grade`` speaks swe_sdk: a task (or the name of one that the server has loaded) and the
bytes of a patch, answered by an :class:`~swe_sdk.model.outcome.Outcome`.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from swe_sdk.model.outcome import Mask, Outcome, Status
from swe_sdk.model.patch import Patch
from swe_sdk.model.record import Record
from swe_sdk.model.task import Task

Control = Literal["off", "unresolved", "always"]
"""Whether the task's own gold patch is graded too, under the same conditions, and when. Where it does not resolve the
task, a verdict that the patch does not either is no measurement, and is masked."""
PatchSource = Literal["metadata", "fence", "sandbox", "none"]
TaskSource = Literal["loaded", "request"]
ErrorKind = Literal["sandbox", "timeout", "eval_timeout", "eval_error"]

_OPEN = ConfigDict(extra="allow", frozen=True)


class ResponsesCreateParams(BaseModel):
    """What the model was asked for; only the metadata, in which the task stands, is read."""

    model_config = _OPEN

    metadata: dict[str, Any] | None = None
    """``instance_id``, and the task's row as ``instance_dict`` (a JSON text) or its fields themselves; for a task that
    the server has loaded, the ``instance_id`` is enough. ``eval_timeout_s`` may stand here as well.

    Without an ``instance_id`` here, the fields of the request itself are the row, as with NeMo Gym's own servers."""


class ModelResponse(BaseModel):
    """What the model said: an object of the Responses API."""

    model_config = _OPEN

    metadata: dict[str, Any] | None = None
    """``model_patch`` (text), or ``model_patch_base64``."""
    output: list[Any] = Field(default_factory=list)
    """Where the metadata holds no patch, it is the first fenced block in the text of a message that calls itself
    ``diff`` or ``patch``."""


class VerifyRequest(BaseModel):
    """NeMo Gym's ``BaseVerifyRequest``; whatever else it holds is echoed, and may be the fields of a task's row."""

    model_config = _OPEN

    responses_create_params: ResponsesCreateParams
    response: ModelResponse
    eval_timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """For the tests alone, in seconds; None = as the server is set. More than the server allows is refused."""
    control: Control | None = None
    """None = as the server is set."""


class ControlReport(Record):
    """What came of the gold patch."""

    status: Status
    reason: str = ""


class Verdict(BaseModel):
    """What NeMo Gym reads of an answer, and below it what swe_sdk knows besides."""

    model_config = ConfigDict(frozen=True)

    reward: float
    """1.0 if resolved, else 0.0; never null. Where ``mask_sample`` is set, no measurement."""
    mask_sample: bool
    """Leave this sample out of every mean and every gradient."""
    failure_kind: str | None = None
    """Of NeMo Gym's vocabulary where it has a name for it, else ``swe_sdk:<kind>``; null unless masked."""
    failure_reason: str | None = None
    """For people, never for grouping; null unless masked."""
    instance_id: str
    resolved: bool
    patch_exists: bool
    patch_applied: bool
    """False also where it was not tried."""
    eval_error: bool
    """As ``mask_sample``."""
    error_kind: ErrorKind | None = None
    """null unless masked."""

    status: Status
    reason: str = ""
    """Why it is not resolved, for people."""
    flags: tuple[str, ...] = ()
    mask: Mask | None = None
    control: ControlReport | None = None
    """null where no control run was made."""
    patch_source: PatchSource
    task_source: TaskSource
    provider: str = ""
    key: str = ""
    """The content key of the grade."""
    timings_s: dict[str, float] = Field(default_factory=dict)


class VerifyResponse(Verdict):
    """NeMo Gym's ``BaseVerifyResponse``: the request, and the verdict."""

    model_config = _OPEN

    responses_create_params: ResponsesCreateParams
    response: ModelResponse


class GradeRequest(Record):
    """One patch for one task, for clients that have swe_sdk: ``GradeRequest(task=task.private(), patch=patch.data)``.

    ``model_dump_json()`` of it is the body, bytes as base64.
    """

    instance_id: str | None = None
    """A task that the server has loaded."""
    task: dict[str, Any] | None = None
    """Else the whole task, as :meth:`Task.private` writes it."""
    patch: bytes = b""
    eval_timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    control: Control | None = None

    @model_validator(mode="after")
    def _one_task(self) -> GradeRequest:
        if (self.instance_id is None) == (self.task is None):
            raise ValueError("give either instance_id or task")
        return self

    @classmethod
    def of(cls, task: Task | str, patch: Patch | bytes | str | None, **options: Any) -> GradeRequest:
        """A request for a task, or for the id of one that the server has loaded."""
        told = {"instance_id": task} if isinstance(task, str) else {"task": task.private()}
        return cls(**told, patch=Patch.of(patch).data, **options)


class GradeResponse(Record):
    """The answer to a :class:`GradeRequest`. Paths in ``outcome.artifacts`` are the server's."""

    outcome: Outcome
    control: ControlReport | None = None


class SessionRequest(BaseModel):
    """What NeMo Gym's agents post to begin and to end a session; this server keeps nothing between two posts."""

    model_config = _OPEN

    resources_session_id: str | None = Field(default=None, min_length=1)
    """Given back in the answer."""


class ErrorDetail(Record):
    """What is wrong with a request, and what to do about it."""

    code: str
    """Of a short list; see the page about the server."""
    detail: str
    remedy: str = ""


class ErrorResponse(Record):
    """The body of every answer of 400 and above."""

    error: ErrorDetail


class HealthResponse(Record):
    """Whether posts are accepted (status 200) or not (503), and how busy the server is."""

    status: Literal["ok", "draining"]
    version: str
    provider: str
    tasks: int
    """Loaded ones."""
    uptime_s: float
    posts: int
    """Being answered."""
    evaluations: int
    """Under way."""
    waiting: int
    """Evaluations that wait for a place."""
    workers: int
    """Evaluations that may be under way at once."""
