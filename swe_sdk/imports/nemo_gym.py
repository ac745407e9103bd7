"""NeMo Gym's ``rollouts.jsonl``: one rollout a line, the agent's whole response in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from swe_sdk.errors import InputError
from swe_sdk.exports.nemo_gym import rollout_record
from swe_sdk.imports.record import (
    Found,
    Imported,
    ImportedFile,
    ImportedStep,
    Skipped,
    as_count,
    as_name,
    as_text,
    mapping,
    one_line,
    shortened,
)


def read_nemo_gym(path: Path) -> Found:
    """Each line of a file, read one at a time. Verdicts are read as :func:`~swe_sdk.exports.rollout_record` does."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    yield _imported(json.loads(line))
                except (ValueError, RecursionError) as error:  # InputError is a ValueError
                    yield Skipped(f"{path.name}:{number}", str(error))


def _imported(row: Any) -> Imported:
    if not isinstance(row, dict):
        raise InputError("a row is no JSON object")
    record = rollout_record({**row, "instance_id": _instance_id(row)})
    response = mapping(row.get("response"))
    usage = mapping(response.get("usage"))
    steps = list(_steps(response.get("output")))
    if steps:
        tokens_in, tokens_out = as_count(usage.get("input_tokens")), as_count(usage.get("output_tokens"))
        steps[-1] = steps[-1]._replace(tokens_in=tokens_in, tokens_out=tokens_out)  # known for the whole of it only
    rollout_index = row.get("_ng_rollout_index")
    return Imported(
        instance_id=record.instance_id,
        outcome=record.outcome,
        sample=rollout_index if isinstance(rollout_index, int) and rollout_index >= 0 else None,
        agent=record.agent or as_text(mapping(row.get("agent_ref")).get("name")),
        agent_version=record.agent_version,
        model=record.model,
        end_reason=record.end_reason or as_text(row.get("agent_error_kind")) or "done",
        steps=tuple(steps),
        files=tuple(_files(row, record.patch.data)),
        stages_s=tuple(record.stages_s.items()),
        started_at=min(record.stages_at.values(), default=None),
    )


def _instance_id(row: dict[str, Any]) -> str:
    """Some agents' rows have it at the top, others in the request or in the configuration."""
    request = mapping(row.get("responses_create_params"))
    places = (row, mapping(request.get("metadata")), mapping(row.get("instance_config")))
    found = next((as_name(place.get("instance_id")) for place in places if as_name(place.get("instance_id"))), "")
    if not found:
        raise InputError("a row names no instance_id")
    return found


def _steps(output: object) -> Iterator[ImportedStep]:
    """Messages and calls of the response, each call with what came back."""
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    replies = {item.get("call_id"): item.get("output") for item in items if item.get("type") == "function_call_output"}
    for item in items:
        kind = item.get("type")
        if kind == "function_call":
            name, arguments = as_text(item.get("name")), as_text(item.get("arguments"))
            reply = shortened(as_text(replies.get(item.get("call_id"))))
            data = {"name": name, "arguments": shortened(arguments), "output": reply}
            yield ImportedStep("action", one_line(f"{name} {arguments}"), data)
        elif kind in ("message", "reasoning"):
            text = _text(item.get("content") if kind == "message" else item.get("summary"))
            yield ImportedStep("message", one_line(text), {"type": kind, "text": shortened(text)})


def _text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(as_text(mapping(part).get("text")) for part in content)
    return as_text(content)


def _files(row: dict[str, Any], patch: bytes) -> Iterator[ImportedFile]:
    if patch:
        yield ImportedFile("patch.diff", "patch", patch)
    if row.get("response"):
        text = json.dumps(row["response"], indent=1, ensure_ascii=True)
        yield ImportedFile("response.json", "transcript", text.encode())
    if as_text(row.get("test_output")):
        yield ImportedFile("test.log", "log", row["test_output"].encode("utf-8", "replace"))
