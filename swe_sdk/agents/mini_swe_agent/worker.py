"""The process in which mini-swe-agent runs, in its own environment: started by path, it knows nothing of swe_sdk.

It is told what to do by JSON lines on standard input, and answers each by one on standard output, so that every model
call and every command of a turn is a step that the other side takes, and can stop between. Commands are executed by the
other side, which gives their outputs; model calls are made here, to the address that it gives.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import yaml
from minisweagent import package_dir
from minisweagent.agents.default import DefaultAgent
from minisweagent.exceptions import FormatError, InterruptAgentFlow, Submitted
from minisweagent.models.utils.actions_toolcall import (
    BASH_TOOL,
    format_toolcall_observation_messages,
    parse_toolcall_actions,
)
from model_client import ModelClient, ModelFailed

_PROMPTS = Path(package_dir) / "config" / "benchmarks" / "swebench.yaml"
_STATE = ("n_calls", "cost", "n_consecutive_format_errors", "extra_template_vars")


class Model:
    """mini-swe-agent's model protocol over one small HTTP client."""

    config = None

    def __init__(self, client: ModelClient, templates: dict[str, str]) -> None:
        self._client = client
        self._templates = templates

    def query(self, messages: list[dict[str, Any]], **_options: Any) -> dict[str, Any]:
        """One call; ``FormatError`` where the reply has no usable tool call."""
        sent = [{key: value for key, value in message.items() if key != "extra"} for message in messages]
        reply, cost = self._client.complete(sent, tools=[BASH_TOOL])
        choice = reply["choices"][0]
        extra = {"response": reply, "cost": cost, "timestamp": time.time()}
        try:
            actions = self._actions(choice)
        except FormatError as error:
            error.messages[0].setdefault("extra", {}).update(extra)
            raise
        return {**choice["message"], "extra": {"actions": actions, **extra}}

    def _actions(self, choice: dict[str, Any]) -> list[dict[str, Any]]:
        calls = choice["message"].get("tool_calls") or []
        named = [SimpleNamespace(id=call["id"], function=SimpleNamespace(**call["function"])) for call in calls]
        about = {"finish_reason": choice.get("finish_reason")}
        template = self._templates["format_error_template"]
        actions: list[dict[str, Any]] = parse_toolcall_actions(
            named, format_error_template=template, template_kwargs=about
        )
        return actions

    def format_message(self, **message: Any) -> dict[str, Any]:
        """As it is."""
        return message

    def format_observation_messages(
        self, message: dict[str, Any], outputs: list[dict[str, Any]], template_vars: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Outputs as tool messages."""
        formatted: list[dict[str, Any]] = format_toolcall_observation_messages(
            actions=message["extra"]["actions"],
            outputs=outputs,
            observation_template=self._templates["observation_template"],
            template_vars=template_vars,
        )
        return formatted

    def get_template_vars(self, **_options: Any) -> dict[str, Any]:
        """None of its own."""
        return {}

    def serialize(self) -> dict[str, Any]:
        """Nothing that would hold the key."""
        return {"info": {"config": {"model_type": "swe_sdk"}}}


class Environment:
    """mini-swe-agent's environment protocol: the output of each command is given from outside."""

    config = None

    def __init__(self, variables: dict[str, Any]) -> None:
        self._variables = variables
        self.given: dict[str, Any] = {}

    def execute(self, _action: dict[str, Any], cwd: str = "") -> dict[str, Any]:
        """The output that was given; ``Submitted`` where it is the agent's submission."""
        submission = self.given.pop("submission", None)
        if submission is not None:
            extra = {"exit_status": "Submitted", "submission": submission}
            raise Submitted({"role": "exit", "content": submission, "extra": extra})
        return self.given

    def get_template_vars(self, **more: Any) -> dict[str, Any]:
        """What the prompts may name of the box."""
        return {**self._variables, **more}

    def serialize(self) -> dict[str, Any]:
        """Its kind."""
        return {"info": {"config": {"environment_type": "swe_sdk"}}}


class Ticking(DefaultAgent):  # type: ignore[misc]  # its package is not there where types are checked
    """mini-swe-agent's agent, one model call or one command at a time: what its own ``run`` does in a loop."""

    outputs: list[dict[str, Any]] | None = None
    """Of the commands of the open turn, as far as they were executed; None where the model is next."""

    def begin(self, task: str) -> None:
        """Its first messages."""
        self.extra_template_vars = {"task": task}
        for role, template in (("system", self.config.system_template), ("user", self.config.instance_template)):
            self.add_messages(self.model.format_message(role=role, content=self._render_template(template)))

    def ask(self) -> None:
        """One model call."""
        try:
            self.query()
            self.outputs = []
        except FormatError as error:
            self._count(error)
        except InterruptAgentFlow as flow:
            self.add_messages(*flow.messages)

    def act(self, output: dict[str, Any]) -> None:
        """One command of the open turn, whose output is given."""
        turn = self.messages[-1]
        assert self.outputs is not None
        self.env.given = output
        try:
            self.outputs.append(self.env.execute(self.next_action()))
        except InterruptAgentFlow as flow:
            self.outputs = None
            self.add_messages(*flow.messages)
            return
        if len(self.outputs) == len(turn["extra"]["actions"]):
            observed = self.model.format_observation_messages(turn, self.outputs, self.get_template_vars())
            self.outputs = None
            self.n_consecutive_format_errors = 0
            self.add_messages(*observed)

    def next_action(self) -> dict[str, Any] | None:
        """The next command of the open turn; None where the model is next."""
        if self.outputs is None:
            return None
        action: dict[str, Any] = self.messages[-1]["extra"]["actions"][len(self.outputs)]
        return action

    def _count(self, error: FormatError) -> None:
        self.cost += error.messages[0].get("extra", {}).get("cost", 0.0)
        self.n_consecutive_format_errors += 1
        self.add_messages(*error.messages)
        if 0 < self.config.max_consecutive_format_errors <= self.n_consecutive_format_errors:
            extra = {"exit_status": "RepeatedFormatError", "submission": ""}
            self.add_messages({"role": "exit", "content": "RepeatedFormatError", "extra": extra})

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`counters` and the messages were."""
        self.messages = state["messages"]
        self.outputs = state["outputs"]
        for name in _STATE:
            setattr(self, name, state[name])
        self._start_time = time.time() - state["elapsed"]

    def counters(self) -> dict[str, Any]:
        """Its state but the messages."""
        elapsed = time.time() - self._start_time
        return {**{name: getattr(self, name) for name in _STATE}, "outputs": self.outputs, "elapsed": elapsed}


class Worker:
    """Answers requests about one agent."""

    def __init__(self, settings: dict[str, Any]) -> None:
        prompts = yaml.safe_load(_PROMPTS.read_text("utf-8"))
        templates = {**prompts["agent"], **prompts["model"], **settings["prompts"]}
        where = settings["workdir"]
        templates["instance_template"] = templates["instance_template"].replace("/testbed", where)
        model = Model(ModelClient(**settings["model"], api_key=os.environ.pop("SWE_SDK_MODEL_KEY", "")), templates)
        self.agent = Ticking(
            model,
            Environment(settings["variables"]),
            system_template=templates["system_template"],
            instance_template=templates["instance_template"],
            step_limit=settings["step_limit"],
            cost_limit=settings["cost_limit"],
            max_consecutive_format_errors=settings["max_consecutive_format_errors"],
        )
        self._told = 0

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what is asked for; what is new since the last answer."""
        failed = None
        try:
            self._do(request)
        except ModelFailed as error:
            failed = {"status": error.status, "code": error.code, "message": str(error)}
        return {**self._news(), "failed": failed}

    def _do(self, request: dict[str, Any]) -> None:
        operation = request["op"]
        if operation == "begin":
            self.agent.begin(request["task"])
        elif operation == "restore":
            self.agent.restore(request["state"])
            self._told = len(self.agent.messages)
        elif operation == "ask":
            self.agent.ask()
        else:
            self.agent.act(request["output"])

    def _news(self) -> dict[str, Any]:
        messages = self.agent.messages[self._told :]
        self._told = len(self.agent.messages)
        has_ended = bool(self.agent.messages) and self.agent.messages[-1].get("role") == "exit"
        action = None if has_ended else self.agent.next_action()
        return {"messages": messages, "counters": self.agent.counters(), "action": action, "has_ended": has_ended}


def main() -> None:
    """Serve until standard input ends; then end at once, even in the middle of a model call."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever prints, prints to standard error
    requests: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_read, args=(sys.stdin, requests), daemon=True).start()
    worker = Worker(requests.get())
    while True:
        answers.write(json.dumps(worker.answer(requests.get())) + "\n")
        answers.flush()


def _read(stream: TextIO, requests: queue.Queue[dict[str, Any]]) -> None:
    for line in stream:
        requests.put(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    main()
