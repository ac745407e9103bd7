"""The program that runs OpenHands in the box, on its own interpreter: started by path, it knows nothing of swe_sdk.

It reads one JSON object from standard input, and prints one for each event of the conversation and one for its end. A
conversation that is there goes on where it stands, and what it said after the event ``seen`` is printed first.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import uuid
from typing import Any, TextIO

from openhands.sdk import LLM, Agent, Conversation, Tool
from openhands.sdk.conversation.exceptions import ConversationRunError
from openhands.tools.file_editor import FileEditorTool
from openhands.tools.terminal import TerminalTool
from pydantic import SecretStr

_MODEL_PACKAGES = ("openhands.sdk.llm", "litellm", "openai", "httpx")


class Report:
    """Where events are printed: nothing that a library prints gets there."""

    def __init__(self) -> None:
        self._stream: TextIO = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
        self._lock = threading.Lock()
        os.dup2(2, 1)

    def say(self, value: dict[str, Any]) -> None:
        """One line."""
        with self._lock:
            self._stream.write(json.dumps(value) + "\n")
            self._stream.flush()


class Run:
    """One conversation, or the rest of one."""

    def __init__(self, request: dict[str, Any], report: Report) -> None:
        self._report = report
        self._prompt: str | None = request["prompt"]
        self._seen: str | None = request["seen"]
        self._last_error: dict[str, Any] | None = None
        tools = [Tool(name=TerminalTool.name), Tool(name=FileEditorTool.name)]
        self._conversation = Conversation(
            agent=Agent(llm=_llm(request), tools=tools),
            workspace=request["workdir"],
            persistence_dir=request["state"],
            conversation_id=uuid.UUID(request["conversation_id"]),
            visualizer=None,
            callbacks=[self._heard],
            max_iteration_per_run=request["max_iterations"],
            delete_on_close=False,
        )

    def to_its_end(self) -> None:
        """Run it, and say how it ended."""
        error: BaseException | None = None
        try:
            if self._prompt is None:
                self._catch_up()
            else:
                self._conversation.send_message(self._prompt)
            self._conversation.run()
        except ConversationRunError as failed:
            error = failed.original_exception
        self._report.say({"end": {"status": self._conversation.state.execution_status.value, **self._said(error)}})
        self._conversation.close()

    def _catch_up(self) -> None:
        """Print what the process before has said and nobody has heard: it was ended meanwhile."""
        events = list(self._conversation.state.events)
        heard = [number for number, event in enumerate(events) if event.id == self._seen]
        for event in events[heard[-1] + 1 :] if heard else events:
            self._heard(event)

    def _heard(self, event: Any) -> None:
        if type(event).__name__ == "ConversationErrorEvent":
            self._last_error = {"code": event.code, "message": event.detail}
        dumped = event.model_dump(mode="json")
        self._report.say({"event": dumped, "usage": self._usage(dumped.get("llm_response_id"))})

    def _usage(self, response_id: str | None) -> dict[str, Any] | None:
        if response_id is None:
            return None
        metrics = self._conversation.conversation_stats.get_combined_metrics()
        used = [usage for usage in metrics.token_usages if usage.response_id == response_id]
        return used[-1].model_dump(mode="json") if used else None

    def _said(self, error: BaseException | None) -> dict[str, Any]:
        said = self._last_error or {"code": "", "message": ""}
        if error is None:
            return said
        kind = type(error)
        is_models = kind.__module__.startswith(_MODEL_PACKAGES)
        return {"code": kind.__name__, "message": str(error)[:2000], "is_models": is_models}


def _llm(request: dict[str, Any]) -> LLM:
    settings = {
        "model": f"openai/{request['model']}",
        "base_url": request["base_url"],
        "api_key": SecretStr(os.environ.pop("SWE_SDK_MODEL_KEY", "") or "none"),
        "usage_id": "agent",
        "input_cost_per_token": 0.0,
        "output_cost_per_token": 0.0,
        **request["llm"],
    }
    return LLM(**settings)


def main() -> None:
    """Exit code 0 whenever the end was said."""
    report = Report()
    Run(json.load(sys.stdin), report).to_its_end()


if __name__ == "__main__":
    main()
    os._exit(0)  # threads of its libraries may not end
