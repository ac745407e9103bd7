"""Trajectories of mini-swe-agent (``*.traj.json``, formats 1 and 1.1): what the agent did, without a verdict."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from swe_sdk.errors import InputError
from swe_sdk.imports.record import (
    Found,
    Imported,
    ImportedFile,
    ImportedStep,
    Skipped,
    as_count,
    as_name,
    as_text,
    as_time,
    mapping,
    one_line,
    shortened,
)

SUFFIX = ".traj.json"
_NAMELESS = ("trajectory", "traj", "last_mini_run")
_ENDS = {"submitted": "done", "limitsexceeded": "step_limit"}


def read_mini_swe_agent(path: Path) -> Found:
    """A trajectory, or all of them in or below a folder."""
    for file in trajectories(path):
        try:
            yield _imported(file)
        except (ValueError, OSError, RecursionError) as error:
            yield Skipped(str(file), str(error))


def trajectories(path: Path) -> list[Path]:
    """The files, by name."""
    return sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]


def _imported(file: Path) -> Imported:
    data = json.loads(file.read_bytes())
    messages = data.get("messages") if isinstance(data, dict) else None
    if not isinstance(messages, list):
        raise InputError("a trajectory has no messages")
    info = mapping(data.get("info"))
    steps = tuple(step for message in messages if isinstance(message, dict) for step in _steps(message))
    times = [step.at for step in steps if step.at is not None] or [file.stat().st_mtime]
    end = as_text(info.get("exit_status"))
    patch = as_text(info.get("submission")).encode("utf-8", "surrogateescape")
    files = [ImportedFile(file.name, "transcript", file)]
    return Imported(
        instance_id=_instance_id(data, file),
        outcome=None,
        agent="mini-swe-agent",
        agent_version=as_text(info.get("mini_version")),
        model=_model(info),
        end_reason=_ENDS.get(end.lower(), end or "unknown"),
        steps=steps,
        files=tuple([*files, ImportedFile("patch.diff", "patch", patch)] if patch else files),
        started_at=min(times),
        ended_at=max(times),
    )


def _instance_id(data: dict[str, Any], file: Path) -> str:
    stem = file.name.removesuffix(SUFFIX)
    return as_name(data.get("instance_id")) or as_name(file.parent.name if stem in _NAMELESS else stem)


def _model(info: dict[str, Any]) -> str:
    return as_text(mapping(mapping(info.get("config")).get("model")).get("model_name"))


def _steps(message: dict[str, Any]) -> Iterator[ImportedStep]:
    """What the model said, or what a command answered. Prompts and the last message are none."""
    role, text, extra = message.get("role"), as_text(message.get("content")), mapping(message.get("extra"))
    at = as_time(extra.get("timestamp"))
    if role == "assistant":
        usage = mapping(mapping(extra.get("response")).get("usage"))
        commands = [as_text(mapping(action).get("command")) for action in _list(extra.get("actions"))]
        yield ImportedStep(
            "model",
            one_line(text or " ".join(commands)),
            {"text": shortened(text), "commands": [shortened(command) for command in commands]},
            at,
            as_count(usage.get("prompt_tokens")),
            as_count(usage.get("completion_tokens")),
        )
    elif "returncode" in extra or role == "tool":
        output = as_text(extra.get("raw_output")) or text
        data = {"returncode": extra.get("returncode"), "output": shortened(output)}
        yield ImportedStep("action", one_line(f"{extra.get('returncode', '?')}: {output}"), data, at)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
