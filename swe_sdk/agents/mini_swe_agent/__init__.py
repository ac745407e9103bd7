"""mini-swe-agent, driven from this process: its own agent loop, in its own environment, over a lent box."""

from swe_sdk.agents.mini_swe_agent.agent import MiniSweAgent

__all__ = ["MiniSweAgent"]
