"""One episode of mini-swe-agent: its ticks, the commands between them, and what is kept of them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from swe_sdk.agents.contract import AgentEnd, Episode, Step
from swe_sdk.agents.mini_swe_agent import steps
from swe_sdk.agents.mini_swe_agent.environment import VARIABLES, output_of, submitted_patch
from swe_sdk.agents.mini_swe_agent.process import Answer, WorkerProcess
from swe_sdk.agents.summary import model_failure
from swe_sdk.model.patch import Patch

TRAJECTORY, MESSAGES = "trajectory.traj.json", "messages.jsonl"
_N_STEPS = "n_steps"


class Opening(NamedTuple):
    """What an episode starts with."""

    settings: Mapping[str, Any]
    """For the worker."""
    command_timeout_s: float
    version: str


class Conversation:
    """Takes the agent from one boundary to the next. Its state is plain JSON: see :meth:`state`."""

    def __init__(self, episode: Episode, worker: WorkerProcess, opening: Opening) -> None:
        self._episode = episode
        self._worker = worker
        self._opening = opening
        self._messages: list[dict[str, Any]] = []
        self._counters: dict[str, Any] = {}
        self._n_steps = 0
        self._patch: Patch | None = None

    async def to_its_end(self) -> AgentEnd:
        """From the start, or from the state that the episode was saved with."""
        try:
            answer = await self._open()
            while not answer.has_ended and answer.failed is None:
                await self._episode.boundary(self.state())
                answer = await (self._ask() if answer.action is None else self._act(answer.action["command"]))
            if answer.failed is not None:
                return model_failure(**answer.failed)
            return steps.end_of(self._messages[-1], self._counters, self._patch)
        finally:
            self._episode.transcript(TRAJECTORY).write(json.dumps(self._trajectory(), indent=1).encode() + b"\n")

    def state(self) -> dict[str, Any]:
        """Everything that it needs to go on: the agent's six fields, the outputs of its open turn, and our count."""
        return {"messages": list(self._messages), **self._counters, _N_STEPS: self._n_steps}

    async def _open(self) -> Answer:
        await self._worker.tell(self._opening.settings)
        saved = self._episode.saved
        if saved is None:
            return self._heard(await self._worker.ask({"op": "begin", "task": self._episode.task.problem_statement}))
        self._n_steps = saved[_N_STEPS]
        self._keep(saved["messages"])
        return self._heard(await self._worker.ask({"op": "restore", "state": saved}))

    async def _ask(self) -> Answer:
        started = time.monotonic()
        answer = self._heard(await self._worker.ask({"op": "ask"}))
        step = steps.model_step(self._n_steps + 1, answer.messages, time.monotonic() - started)
        if step is not None:
            self._record(step)
        return answer

    async def _act(self, command: str) -> Answer:
        result = await self._episode.box.exec(
            command,
            cwd=self._episode.task.workdir,
            env=VARIABLES,
            timeout_s=self._opening.command_timeout_s,
            merge_stderr=True,
        )
        self._record(steps.action_step(self._n_steps + 1, command, result))
        output = output_of(result, self._episode.box.id)
        if output.submission is not None:
            self._patch = submitted_patch(output.submission, dropped_bytes=result.stdout_dropped_bytes)
        return self._heard(await self._worker.ask({"op": "act", "output": output.message}))

    def _heard(self, answer: Answer) -> Answer:
        self._keep(answer.messages)
        self._counters = answer.counters
        return answer

    def _keep(self, messages: list[dict[str, Any]]) -> None:
        self._messages.extend(messages)
        transcript = self._episode.transcript(MESSAGES)
        for message in messages:
            transcript.write(json.dumps(message).encode() + b"\n")

    def _record(self, step: Step) -> None:
        self._episode.record(step)
        self._n_steps += 1

    def _trajectory(self) -> dict[str, Any]:
        """As mini-swe-agent writes it, for its own tools. The endpoint and its key are not part of it."""
        extra = (self._messages[-1].get("extra") or {}) if self._messages else {}
        ended = {key: extra.get(key, "") for key in ("exit_status", "submission")}
        settings = {key: value for key, value in self._opening.settings.items() if key != "model"}
        stats = {"instance_cost": self._counters.get("cost", 0.0), "api_calls": self._counters.get("n_calls", 0)}
        about = {"model_stats": stats, "config": {"agent": settings}, "mini_version": self._opening.version, **ended}
        return {"info": about, "messages": self._messages, "trajectory_format": "mini-swe-agent-1.1"}
