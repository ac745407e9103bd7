"""Any program as an agent: one long command in the box, its output streamed to a transcript."""

from __future__ import annotations

import json
import time
from typing import ClassVar

from pydantic import Field

from swe_sdk.agents.contract import AgentEnd, AgentNeeds, Episode, Step, Tier
from swe_sdk.errors import SandboxLost
from swe_sdk.model.environment import Variables
from swe_sdk.model.record import Record
from swe_sdk.sandbox.contract import Mount

FOLDER = "/tmp/swe_sdk-task"
TRANSCRIPT = "output.log"
_SHOWN_BYTES = 2000


class CommandAgent(Record):
    """Runs ``command`` (a shell line, or an argument list) in the repository until it exits.

    It finds the task in files outside of the repository: ``$SWE_TASK_STATEMENT`` (text) and ``$SWE_TASK_FILE`` (the
    public half of the task as JSON); and with ``model=True`` its model by ``OPENAI_BASE_URL``, ``OPENAI_API_KEY`` and
    ``NEMO_GYM_MODEL``. Its exit code says whether it is done (0) or has failed; its work is graded either way.
    """

    name: ClassVar[str] = "command"
    tier: ClassVar[Tier] = "restart"
    version: str = "1"
    """Of the program, for the record of the run."""
    command: str | tuple[str, ...]
    env: Variables = Field(default_factory=dict)
    user: str | None = None
    model: bool = False
    mounts: tuple[Mount, ...] = ()
    """Read-only files of this machine, such as the program."""

    @property
    def needs(self) -> AgentNeeds:
        """The program's files and, if it wants one, a model."""
        return AgentNeeds(egress="model" if self.model else "none", mounts=self.mounts)

    async def run(self, episode: Episode) -> AgentEnd:
        """Run the program; the engine ends it where its time is up. ``SandboxLost`` where the box dies under it."""
        transcript, begin = episode.transcript(TRANSCRIPT), time.monotonic()
        result = await episode.box.exec(
            self.command,
            env={**await _task_files(episode), **_model_variables(episode), **self.env},
            user=self.user,
            merge_stderr=True,
            output_bytes=_SHOWN_BYTES,
            on_output=lambda _stream, data: transcript.write(data),
        )
        if result.status == "lost":
            raise SandboxLost("the sandbox died under the agent's program")
        seconds = time.monotonic() - begin
        episode.record(Step(n=1, kind="action", summary=f"the program {result.summary}", seconds=seconds))
        reason = "done" if result.ok else "error"
        message = "" if result.ok else f"the program {result.summary}: {result.stdout[-_SHOWN_BYTES:]}"
        return AgentEnd(reason=reason, message=message, exit_code=result.exit_code)


async def _task_files(episode: Episode) -> dict[str, str]:
    """Write what the program may know of the task; returns the variables that name the files."""
    task = episode.task
    content = {
        "SWE_TASK_STATEMENT": ("statement.md", task.problem_statement.encode("utf-8", "surrogatepass")),
        "SWE_TASK_FILE": ("task.json", json.dumps(task.model_dump(mode="json")).encode()),
    }
    for name, data in content.values():
        await episode.box.write(f"{FOLDER}/{name}", data)
    return {variable: f"{FOLDER}/{name}" for variable, (name, _data) in content.items()}


def _model_variables(episode: Episode) -> dict[str, str]:
    """Where the program reaches its model, by the names that clients of the protocol look for."""
    model = episode.model
    if model is None:
        return {}
    from swe_sdk.agents.model_endpoint import model_env  # the gateway comes with it, which few runs of this need

    return model_env(model)
