"""Checkpoints over HTTP: the control routes of a participant, and a client that is one for its coordinator."""

from __future__ import annotations

from swe_sdk.server.control.app import control_app, control_routes, serve_control
from swe_sdk.server.control.client import HttpParticipant, NotAParticipant, ParticipantUnreachable
from swe_sdk.server.control.discovery import find_participants
from swe_sdk.server.control.settings import ControlLimits

__all__ = [
    "ControlLimits",
    "HttpParticipant",
    "NotAParticipant",
    "ParticipantUnreachable",
    "control_app",
    "control_routes",
    "find_participants",
    "serve_control",
]
