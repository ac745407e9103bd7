"""How the servers of an episode are set."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr

from swe_sdk.model.record import Record


class ResourcesSettings(Record):
    """Of a resources server, beside those of its verifier (:class:`~swe_sdk.server.settings.ServerSettings`)."""

    secret: SecretStr | None = None
    """Signs the tokens of what is lent; servers that share one accept each other's. None = one of this process."""
    session_idle_s: float = Field(default=3600.0, gt=0)
    """A session that nobody has used for so long is closed: its episode is gone."""
    session_lifetime_s: float = Field(default=86400.0, gt=0)
    """A session is closed after so long, whoever uses it; its tokens hold no longer either."""
    sessions: int = Field(default=256, ge=1)
    """At once; a seed beyond that gets 429."""
    calls_per_session: int = Field(default=64, ge=1)
    """Commands, files and tool calls of one sandbox at once; further ones get 429."""
    seed_timeout_s: float = Field(default=600.0, gt=0)
    """For making a sandbox, its environment's first build not included."""
    close_timeout_s: float = Field(default=600.0, gt=0)
    """For taking the patch."""
    transfer_mib: float = Field(default=4096.0, gt=0)
    """The largest file that may be put into a lent sandbox, or taken out of one."""
    state_dir: Path | None = None
    """Where it keeps what outlives it (the index of snapshots): absolute, per server and run. None = a folder that
    goes with it."""


class AgentSettings(Record):
    """Of an agent server."""

    command_timeout_s: float = Field(default=300.0, gt=0)
    """For one command of a host-driven agent, unless it says otherwise."""
    activation_timeout_s: float | None = Field(default=1800.0, gt=0)
    """For the agent's own work; what is there when it ends is graded."""
    activations: int = Field(default=64, ge=1)
    """At once; further ones wait."""
    session_idle_s: float = Field(default=3600.0, gt=0)
    """A session that nobody has used for so long is closed."""
    sessions: int = Field(default=4096, ge=1)
    """At once; a seed beyond that gets 429."""


class EpisodeSettings(Record):
    """Of whoever drives episodes: an environment server, or an agent server with its legacy ``/run``."""

    max_concurrent_episodes: int | None = Field(default=None, ge=1)
    """None = no limit but that of posts."""
    queue_timeout_seconds: float = Field(default=600.0, gt=0)
    """How long an episode waits for its turn; then it gets 429."""
    default_episode_timeout_seconds: float | None = Field(default=None, gt=0)
    """The budget of an episode, over all of its attempts; None = the stages' own caps alone."""
    cleanup_timeout_seconds: float = Field(default=120.0, gt=0)
    """How long the sessions of an episode that is over may take to close."""
    patience_s: float = Field(default=60.0, ge=0)
    """For how long a peer that is busy (429, 503) or cannot be connected to is asked again."""
