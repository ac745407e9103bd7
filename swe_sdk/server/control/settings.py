"""How the control routes are set, beside :class:`~swe_sdk.checkpoint.settings.CheckpointSettings`."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator

from swe_sdk.checkpoint.codes import refuse
from swe_sdk.model.record import Record


class ControlLimits(Record):
    """What one control call may bring, and where it may write."""

    body_mib: float = Field(default=64.0, gt=0)
    """The largest body; larger ones get 413. A hundred thousand episodes take less than 10."""
    body_timeout_s: float = Field(default=60.0, gt=0)
    """For a body to arrive; slower ones get 408."""
    checkpoint_root: Path | None = None
    """Below which directory checkpoints are written and read; None = wherever the caller says, who has the token."""

    @field_validator("checkpoint_root")
    @classmethod
    def _absolute(cls, root: Path | None) -> Path | None:
        if root is not None and not root.is_absolute():
            raise ValueError(f"checkpoint_root must be absolute: {root}")
        return root

    def require_place(self, checkpoint_dir: str) -> None:
        """``checkpoint_error`` for a directory that is relative, or outside the root."""
        path = Path(checkpoint_dir)
        if not path.is_absolute():
            raise refuse("checkpoint_error", f"checkpoint_dir is relative: {checkpoint_dir!r:.200}")
        if self.checkpoint_root is not None and not path.resolve().is_relative_to(self.checkpoint_root.resolve()):
            raise refuse("checkpoint_error", f"checkpoint_dir is not below {self.checkpoint_root}")
