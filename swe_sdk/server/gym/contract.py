"""What goes over the wire between the servers of an episode: NeMo Gym's shapes, field for field.

Requests refuse unknown fields, as its own do. Replies hold its fields, and at most some more that its types ignore.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.record import Record
from swe_sdk.server.models import ModelResponse, ResponsesCreateParams, VerifyResponse

PROVIDER_REF = "swe_sdk.lent"
"""The ``provider_config_ref`` of sandboxes that are reached through the server that owns them."""
Name = Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
_ROLLOUT = r"(?!.*-a[1-9][0-9]*$)[A-Za-z0-9][A-Za-z0-9._-]*"
SessionId = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class TaskId(Record):
    """Which task, of which set."""

    taskset: str = Field(min_length=1)
    task_id: str = Field(min_length=1)
    revision: str | None = None


# -- the loan of a sandbox ---------------------------------------------------------------------------------------------


class DirectSandboxConnection(Record):
    """How a sandbox is reached; what ``descriptor`` holds depends on the provider that ``provider_config_ref`` names.

    Of ``swe_sdk.lent`` it is a :class:`LentSandbox`.
    """

    kind: Literal["direct"] = "direct"
    provider_config_ref: str
    descriptor: dict[str, Any]


class SandboxAccess(Record):
    """A sandbox on loan. It holds a token: a secret, to be written nowhere."""

    connection: DirectSandboxConnection
    workdir: str


class LentSandbox(Record):
    """The descriptor of a sandbox that is reached through its owner."""

    url: str
    """Of the owner: paths below it are those of :mod:`swe_sdk.server.gym.loans`."""
    session_id: str
    token: str
    """Of one attempt."""
    provider: str
    """Which made it, such as ``local``."""
    spec: dict[str, Any]
    """A :class:`~swe_sdk.sandbox.contract.SandboxSpec`."""
    task: dict[str, Any]
    """An :class:`~swe_sdk.agents.contract.AgentTask`: all of the task that an agent may see."""


class McpServer(Record):
    """How the tools of a session are reached over MCP: NeMo Gym's ``MCPServerMetadata``."""

    server_name: str
    url_path: str = "/mcp"
    transport: Literal["http"] = "http"
    headers: dict[str, str]


class McpConnection(Record):
    """An MCP server at an absolute URL."""

    transport: Literal["streamable_http"] = "streamable_http"
    url: str
    headers: dict[str, str] = Field(default_factory=dict)


class McpToolAccess(Record):
    """Tools that an agent reaches over MCP."""

    kind: Literal["mcp"] = "mcp"
    name: Name
    required: bool
    connection: McpConnection


class HttpToolAccess(Record):
    """Tools that an agent reaches by plain routes."""

    kind: Literal["direct_http"] = "direct_http"
    name: Name
    required: bool
    base_url: str
    cookies: dict[str, str] = Field(default_factory=dict)
    headers: dict[str, str] = Field(default_factory=dict)


ToolAccess = Annotated[McpToolAccess | HttpToolAccess, Field(discriminator="kind")]


# -- the resources server ----------------------------------------------------------------------------------------------


class ResourcesSeedRequest(Record):
    """Make what an episode needs; again for the same attempt is the same session."""

    episode_id: EpisodeId
    task_id: TaskId
    task_data: dict[str, Any] = Field(default_factory=dict)
    """The row of a task that the server has not loaded, or ``{"task": Task.private()}``."""
    resources_session_id: SessionId | None = None
    """Chosen by the caller, so that a lost reply loses nothing; None = the server chooses."""


class ResourcesSeedReply(Record):
    """The session, and what of it is lent."""

    resources_session_id: str
    resources_tools: McpServer | None = None
    sandbox_access: SandboxAccess | None = None


class VerificationInput(Record):
    """What the agent was asked, and what it said."""

    responses_create_params: ResponsesCreateParams
    response: ModelResponse


class ResourcesVerifyRequest(Record):
    """Say what an attempt is worth; again is the same verdict, and nothing is evaluated twice."""

    episode_id: EpisodeId
    task_id: TaskId
    verification_input: VerificationInput


class Verification(VerifyResponse):
    """NeMo Gym's ``BaseVerifyResponse``, and the whole outcome."""

    outcome: Outcome


class ResourcesCloseRequest(Record):
    """End a session."""

    resources_session_id: SessionId
    episode_id: EpisodeId


class ResourcesCloseReply(Record):
    """It is over, and its sandbox is gone."""

    resources_session_id: str


# -- the agent server --------------------------------------------------------------------------------------------------


class AgentSeedRequest(Record):
    """Make a session under an id of the caller's; the same again is the same session."""

    agent_session_id: SessionId
    episode_id: EpisodeId
    task_id: TaskId
    tool_accesses: tuple[ToolAccess, ...] = ()
    sandbox_access: SandboxAccess | None = None
    tool_loop_policy: dict[str, Any] | None = None
    """Of no meaning to agents that have a loop of their own, as all of ours have."""

    @field_validator("tool_accesses")
    @classmethod
    def _unique(cls, accesses: tuple[McpToolAccess | HttpToolAccess, ...]) -> tuple[Any, ...]:
        names = [access.name for access in accesses]
        if len(names) != len(set(names)):
            raise ValueError("the names of tool accesses must be unique within a session")
        return accesses


class AgentSeedReply(Record):
    """The session."""

    agent_session_id: str


class AgentCloseRequest(Record):
    """End a session; one that nobody has made is refused from then on."""

    agent_session_id: SessionId
    episode_id: EpisodeId


class AgentCloseReply(Record):
    """It is over."""

    agent_session_id: str
    agent_observations: dict[str, Any] | None = None
    resources_cookies: dict[str, str] | None = None


# -- the environment server --------------------------------------------------------------------------------------------


class TaskInput(Record):
    """What is asked of the agent, and the task."""

    responses_create_params: ResponsesCreateParams
    task_data: dict[str, Any] = Field(default_factory=dict)


class MaterializedTask(Record):
    """A task as it travels."""

    task_id: TaskId
    task_input: TaskInput


class EpisodeRequest(Record):
    """One turn of a single agent."""

    episode_id: EpisodeId
    task: MaterializedTask

    @field_validator("episode_id")
    @classmethod
    def _fits_a_path(cls, episode_id: EpisodeId) -> EpisodeId:
        """Every request of the attempt is made below a path that names it."""
        if not re.fullmatch(_ROLLOUT, episode_id.rollout_id):
            raise ValueError(
                "a rollout_id has letters, digits, dots, dashes and underscores, and does not end in -a<N>"
            )
        return episode_id


class EpisodeResult(Record):
    """What came of it. Infrastructure that failed is a mask of the verification."""

    verification: Verification
    agent_observations: dict[str, Any] | None = None


class EpisodeReply(Record):
    """``failure`` is there because NeMo Gym has it; here it is null: whatever fails is a masked ``result``."""

    episode_id: EpisodeId
    task_id: TaskId
    result: EpisodeResult
    failure: None = None
