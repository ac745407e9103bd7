"""Why something is no measurement, and what to do about it."""

from __future__ import annotations

import json
from typing import Any

from swe_sdk.model.outcome import Mask
from swe_sdk.notebook.blocks import Badge, Block, Facts, Fold, Note, Pre, View, Word
from swe_sdk.notebook.palette import MASK_KIND, VERDICT, style_of

ADVICE = {
    "agent_crashed": "Read the traceback in the evidence: the adapter around the agent broke, not the agent.",
    "agent_failed": "Read the transcript of the agent: it says itself that it failed.",
    "budget_spent": "Give the rollout a larger budget, or count what was there by another policy.",
    "cancelled": "Nothing is wrong: it was stopped. Grade it again, or resume the run.",
    "capability_missing": "Use another provider; `swe-sdk doctor` says what each can do here.",
    "context_window": "Give the agent a model with a larger window, or let it shorten its history.",
    "create_failed": "Run `swe-sdk doctor`; then try again with fewer boxes at a time (limit=).",
    "disk_limit": "Raise disk_mib, if the tests need so much.",
    "environment_failed": "Read the output of the build step in the evidence: the environment does not build here.",
    "evaluator_failed": "Read the log of the upstream's evaluator among the artifacts.",
    "host_oom": "Run fewer boxes at a time (limit=), or give boxes a memory limit, so that only they are ended.",
    "internal_error": "This is a defect of swe_sdk. Report it with the traceback in the evidence.",
    "invalid_task": "Mend the row of the data set: it names no required tests, or a parser that is not known.",
    "lost_worker": "The process or machine that did the work is gone: try again, and look at what ended it there.",
    "memory_limit": "Raise the limit of memory of its boxes, if the work needs so much.",
    "missing_tool": "Install the program that the evidence names, or use a container image that has it.",
    "model_failed": "Look at the model calls: the endpoint answered with an error of its own.",
    "model_unreachable": "See whether the endpoint is up and its address right; then resume the run.",
    "no_space": "Free space where sandboxes and runs are kept; `swe-sdk reap` removes what killed programs have left.",
    "patch_unappliable": "Look at what each rung of the ladder said, in the evidence.",
    "patch_unavailable": "Look at the last steps of the agent: it left a sandbox from which no patch can be taken.",
    "prelude_failed": "Read the log: the set-up commands of the data set failed before any test ran.",
    "provider_unavailable": "Run `swe-sdk doctor`: it says why the provider does not work here.",
    "reset_failed": "Read the evidence: the repository of this environment cannot be brought to its base.",
    "results_disagree": "Compare the log with the runner's own results, both among the artifacts.",
    "runner_files": "Look at the files that configure the test runner, which the patch brings along.",
    "sandbox_lost": "Try again. Where it comes back, look at the memory and the daemon of this machine.",
    "step_limit": "Give the agent more steps, or count what was there by another policy.",
    "test_patch_failed": "Mend the row of the data set: its hidden tests do not apply to its base commit.",
    "timeout": "Raise the time of the stage that the mask names, or run fewer boxes at a time (limit=).",
    "transfer_failed": "Try again. Where it comes back, run `swe-sdk doctor`.",
    "unparseable": "Read the log of the tests: no result of any test is in it.",
    "verifier_failed": "Read the answer of the verifier in the evidence, and its own log.",
    "verifier_unreachable": "See whether the verifier is up and its address right; then grade again.",
}
"""What to do, by kind; a remedy that the evidence brings along comes first."""
_RETRY = "It is worth a new attempt."


def remedy_of(mask: Mask) -> str:
    """What to do about a mask."""
    own = mask.evidence.get("remedy")
    advice = own if isinstance(own, str) and own else ADVICE.get(mask.kind, "")
    return f"{advice} {_RETRY}".strip() if mask.retryable else advice


def mask_blocks(mask: Mask) -> tuple[Block, ...]:
    """The mask within the view of something else."""
    style = style_of(MASK_KIND, mask.kind)
    note = Note(style.named(f"{style.label} in {mask.stage}"), mask.reason, remedy_of(mask))
    return (note, *evidence_fold(mask.evidence, "evidence of the mask"))


def evidence_fold(evidence: dict[str, Any], title: str) -> tuple[Block, ...]:
    """Facts behind a verdict, folded; nothing where there are none."""
    if not evidence:
        return ()
    texts = {name: value for name, value in evidence.items() if isinstance(value, str) and "\n" in value}
    others = {name: value for name, value in evidence.items() if name not in texts}
    plain = [Pre(as_json(others), wrap=True)] if others else []
    shown = (Pre(text, name) for name, text in texts.items())
    return (Fold((Word(title), Word(f" ({', '.join(evidence)})", "muted")), (*plain, *shown)),)


def as_json(value: object) -> str:
    """Plain data for reading."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def mask_view(mask: Mask) -> View:
    """Kind, stage, reason, evidence, what to do."""
    title = (Badge(VERDICT["masked"]), " ", Word(mask.kind, "strong"), f" in {mask.stage}")
    return View(title, (Facts((("retryable", mask.retryable),)), *mask_blocks(mask)))
