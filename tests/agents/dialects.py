"""The same work in the words of each harness: which tool runs a command, and how a model says that it is done."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from swe_sdk.model.patch import Patch
from swe_sdk.testing.scripted_model import ToolUse, Turn, act, say, use

_OH = {"security_risk": "LOW", "summary": "a step"}


@dataclass(frozen=True)
class Dialect:
    """How a scripted model talks to one harness."""

    run: Callable[[str], ToolUse]
    """The tool call of a shell command."""
    end: Callable[[str], Turn]
    """The last turn, with a message."""

    def script(self, *commands: str | Sequence[str]) -> list[Turn]:
        """A turn for each command, or for several in parallel, and one that ends."""
        turns = [[each] if isinstance(each, str) else list(each) for each in commands]
        return [*(act(*map(self.run, turn), text="a step") for turn in turns), self.end("it is done")]

    def patching(self, patch: Patch) -> list[Turn]:
        """Look around, apply a patch of any bytes, and end."""
        return self.script("ls", apply(patch))


def apply(patch: Patch) -> str:
    """The command that applies it: in lines that no terminal cuts."""
    return f"base64 -d <<'END' | git apply --whitespace=nowarn -\n{base64.encodebytes(patch.data).decode()}END"


MINI = Dialect(
    run=lambda command: use("bash", command=command),
    end=lambda _message: act(
        use("bash", command="git add -A && git diff --cached --binary > /tmp/it && echo made"),
        use("bash", command="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat /tmp/it"),
    ),
)
OPENCODE = Dialect(run=lambda command: use("bash", command=command, description="a step"), end=say)
OPENHANDS = Dialect(
    run=lambda command: use("terminal", command=command, **_OH),
    end=lambda message: act(use("finish", message=message, **_OH)),
)
CODEX = Dialect(run=lambda command: use("exec_command", cmd=command), end=say)
DIALECTS = {"codex": CODEX, "mini-swe-agent": MINI, "opencode": OPENCODE, "openhands": OPENHANDS}
