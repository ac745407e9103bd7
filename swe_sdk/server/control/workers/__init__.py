"""Several workers of one server that take part in a checkpoint as one participant.

The main process serves no requests. It holds the coordinator (:class:`.hub.WorkersParticipant`), to which every worker
is connected by a unix socket (:class:`.member.Member`). What is decided stands in pure modules: which reports count
(:mod:`.gathering`), who begins an episode (:mod:`.claims`), where restored sessions go (:mod:`.placement`).
"""

from __future__ import annotations

from swe_sdk.server.control.workers.hub import WorkersParticipant
from swe_sdk.server.control.workers.member import Member

__all__ = ["Member", "WorkersParticipant"]
