"""Checkpoints: park what is under way, save it, go on; restore it after a crash; release what is not needed any more.

No step is lost, none is done twice, and no second of a budget is spent twice. The protocol is NeMo Gym's; the page
"Checkpoints" of the docs tells it from the beginning.
"""

from __future__ import annotations

from swe_sdk.checkpoint.call_gate import CallGate
from swe_sdk.checkpoint.controller import CheckpointController, ControllerSettings
from swe_sdk.checkpoint.coordinator import Coordinator
from swe_sdk.checkpoint.grants import GrantIssuer
from swe_sdk.checkpoint.hooks import AgentHooks, ResourcesHooks, SeedBody
from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.checkpoint.participant import Participant
from swe_sdk.checkpoint.participants.activation import Activation
from swe_sdk.checkpoint.participants.agent import AgentParticipant, SeedReply
from swe_sdk.checkpoint.participants.episode import Episode
from swe_sdk.checkpoint.participants.episodes import EpisodeParticipant
from swe_sdk.checkpoint.participants.model import ModelParticipant
from swe_sdk.checkpoint.participants.resources import ResourcesParticipant
from swe_sdk.checkpoint.participants.restart_only import RestartOnlyParticipant
from swe_sdk.checkpoint.retention import Retention
from swe_sdk.checkpoint.settings import CheckpointSettings
from swe_sdk.checkpoint.snapshots.checkpointer import SandboxCheckpointer
from swe_sdk.checkpoint.snapshots.sweep import audit, sweep
from swe_sdk.checkpoint.turn import Turn

__all__ = [
    "Activation",
    "AgentHooks",
    "AgentParticipant",
    "CallGate",
    "CheckpointController",
    "CheckpointSettings",
    "ControllerSettings",
    "Coordinator",
    "Episode",
    "EpisodeId",
    "EpisodeParticipant",
    "GrantIssuer",
    "ModelParticipant",
    "Participant",
    "ResourcesHooks",
    "ResourcesParticipant",
    "RestartOnlyParticipant",
    "Retention",
    "SandboxCheckpointer",
    "SeedBody",
    "SeedReply",
    "Turn",
    "audit",
    "sweep",
]
