"""How often a run is saved, and what of that is kept."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from swe_sdk.checkpoint.retention import Retention
from swe_sdk.config.model import RunConfig
from swe_sdk.model.record import Record


class Keeping(Record):
    """For one run."""

    every_s: float | None = Field(default=None, gt=0)
    """None = never; a run that is resumed still goes on from what was saved before."""
    retention: Retention = Retention()
    share: Path | None = None
    """A folder that all nodes see, to which snapshots are copied."""

    @classmethod
    def of(cls, config: RunConfig) -> Keeping:
        """As configured."""
        retention = Retention(keep_last=config.keep_last, keep_every=config.keep_every, keep_best=config.keep_best)
        share = None if config.snapshot_share is None else config.snapshot_share.expanduser().absolute()
        return cls(every_s=config.checkpoint_every_s, retention=retention, share=share)
