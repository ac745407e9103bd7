"""Codex, driving itself in the box: its one static program, mounted, with its session kept in the box."""

from swe_sdk.agents.codex.agent import Codex

__all__ = ["Codex"]
