"""Settings of a participant."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr, field_validator, model_validator

from swe_sdk.model.record import Record


class CheckpointSettings(Record):
    """How a server takes part in checkpoints; unknown keys are refused."""

    enabled: bool = False
    """Whether the control routes are installed. A participant in this process needs none."""
    control_auth_token: SecretStr | None = None
    """Bearer token of the control routes; required where they are installed."""
    lease_grace_seconds: float = Field(default=600.0, gt=0)
    """How long after a deadline a participant stays closed, before it opens by itself."""
    state_dir: Path | None = None
    """Where this server keeps what outlives it (the index of snapshots): absolute, per server and per run."""

    @field_validator("state_dir")
    @classmethod
    def _absolute(cls, state_dir: Path | None) -> Path | None:
        if state_dir is not None and not state_dir.is_absolute():
            raise ValueError(f"state_dir must be absolute, and of one server and one run: {state_dir}")
        return state_dir

    @model_validator(mode="after")
    def _guarded(self) -> CheckpointSettings:
        if self.enabled and not (self.control_auth_token and self.control_auth_token.get_secret_value()):
            raise ValueError("control_auth_token is required where checkpoints are enabled")
        return self
