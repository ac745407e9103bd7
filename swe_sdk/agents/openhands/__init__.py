"""OpenHands, driving itself in the box: its SDK, on an interpreter that is mounted with it."""

from swe_sdk.agents.openhands.agent import OpenHands

__all__ = ["OpenHands"]
