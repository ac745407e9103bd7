"""The settings of runs: presets, files, and how they add up."""

from swe_sdk.config.durations import seconds_of, shown_duration
from swe_sdk.config.model import ModelConfig, RunConfig
from swe_sdk.config.presets import PRESETS
from swe_sdk.config.resolve import Resolved, resolve_config

__all__ = ["PRESETS", "ModelConfig", "Resolved", "RunConfig", "resolve_config", "seconds_of", "shown_duration"]
