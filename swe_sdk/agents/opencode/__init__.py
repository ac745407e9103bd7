"""OpenCode, driving itself in the box: its one program, mounted, with its session kept in the box."""

from swe_sdk.agents.opencode.agent import OpenCode

__all__ = ["OpenCode"]
