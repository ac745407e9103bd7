"""The programs that agents are adapters of: each installed once, at a pinned version, in an environment of its own."""

from swe_sdk.agents.harnesses.homes import HarnessStatus, ensure_harness, find_harness, harness_status, need_harness
from swe_sdk.agents.harnesses.pinned import HARNESSES

__all__ = ["HARNESSES", "HarnessStatus", "ensure_harness", "find_harness", "harness_status", "need_harness"]
