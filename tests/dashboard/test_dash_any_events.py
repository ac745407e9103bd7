"""Whatever journals say, as far as they are readable at all: every view shows it, and none fails."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.state import State
from swe_sdk.dashboard.views import views
from swe_sdk.model.budget import Budget
from swe_sdk.model.outcome import Mask, Outcome, PatchReport, TestReport
from swe_sdk.store.events import AnyEvent, Event
from swe_sdk.store.index import open_index
from swe_sdk.store.layout import RUN_FILE, RunFile
from swe_sdk.store.lines import BadLine, decode_line

_TEXTS = st.sampled_from(("", "a.0", "b.0", "c1", "c2", "s1", "patch.diff", "<b>\x00\u202e", "x" * 300, "../..", "é\n"))
_NUMBERS = st.sampled_from((0, 1, 2, 7, 2**31, 2**53, 2**62, 2**70, -1))
_FLOATS = st.sampled_from((0.0, 0.5, 1e-300, 3.3, 1e18, 1.7e308, math.inf, math.nan, -1.0))
_TIMES = st.sampled_from((0.0, 1.0, 1.7e9, 1.7e9 + 1, 1.7e9 + 5000, 2.6e11, 9.99e11))
_EVENTS: tuple[type[Event], ...] = get_args(get_args(AnyEvent)[0])
_NESTED = (Budget, Mask, Outcome, PatchReport, TestReport)


def _value(field: FieldInfo) -> st.SearchStrategy[Any]:
    return _of(field.annotation)


def _of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type as JSON has them, good and bad ones."""
    arguments = get_args(kind)
    if get_origin(kind) is Literal:
        return st.sampled_from(arguments)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _model(kind)
    if kind in (str, bytes):
        return _TEXTS
    if kind is bool:
        return st.booleans()
    if kind is int:
        return _NUMBERS
    if kind is float:
        return _FLOATS
    if get_origin(kind) is dict:
        return st.dictionaries(_TEXTS, _of(arguments[1]), max_size=3)
    if get_origin(kind) in (tuple, list):
        return st.lists(_of(arguments[0]), max_size=3)
    if arguments:  # a union, or an annotated type
        return st.one_of([_of(each) for each in arguments if each is not Ellipsis])
    return st.none() if kind in (None, type(None)) else st.one_of(_TEXTS, _NUMBERS, st.lists(_TEXTS, max_size=2))


def _model(kind: type[BaseModel]) -> st.SearchStrategy[dict[str, Any]]:
    fields = kind.model_fields
    needed = {name: _value(field) for name, field in fields.items() if field.is_required() or name == "kind"}
    others = {name: _value(field) for name, field in fields.items() if name not in needed}
    return st.fixed_dictionaries(needed, optional=others)


@st.composite
def _lines(draw: st.DrawFn) -> list[bytes]:
    """Lines that can be read; of one rollout, so that something is known of it."""
    found = []
    for kind in draw(st.lists(st.sampled_from(_EVENTS), min_size=5, max_size=30)):
        event = {**draw(_model(kind)), "kind": kind.model_fields["kind"].default}
        for name, values in (("rollout_id", "ab"), ("checkpoint_id", "cd"), ("snapshot_id", "st")):
            if name in event and draw(st.integers(0, 5)):
                event[name] = f"{draw(st.sampled_from(values))}.0"
        if "attempt" in event and draw(st.integers(0, 5)):
            event["attempt"] = draw(st.integers(1, 3))
        line = json.dumps({"v": 1, "n": len(found) + 1, "t": draw(_TIMES), "event": event}).encode()
        try:
            decode_line(line)
        except BadLine:
            continue
        found.append(line)
    return found


def _states() -> Iterator[str]:
    for name in views():
        if name not in ("sandboxes", "rollout"):
            yield f"view={name}"
            yield f"view={name}&run=run"
    for rollout in ("a.0", "b.0"):
        for tab in ("overview", "tests", "steps", "patch", "files"):
            yield urlencode({"view": "rollout", "run": "run", "rollout": rollout, "tab": tab})
    yield "view=compare&run=run&run=other"
    yield "view=checkpoints&run=run&checkpoint=c.0"
    yield "view=retention&run=run&show=all&keep=c.0"
    for sort in ("-spent_s", "remaining_s", "seconds", "-updated_at"):
        yield f"view=rollouts&sort={sort}"


@pytest.mark.filterwarnings("ignore::pydantic.json_schema.PydanticJsonSchemaWarning")
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to make it smaller takes minutes, and tells no more
)
@given(_lines(), _lines())
def test_every_view_shows_whatever_can_be_read(lines: list[bytes], others: list[bytes]) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        for name, written in (("run", lines), ("other", others)):
            (root / name / "events").mkdir(parents=True)
            (root / name / RUN_FILE).write_text(RunFile(created_at=1.0).model_dump_json())
            (root / name / "events" / "h-1-1.jsonl").write_bytes(b"".join(line + b"\n" for line in written))
        with open_index(root, index_dir=root / "index") as index:
            for query in _states():
                state = State.parse(query)
                view = views()[state.view]
                try:
                    view.render(Context(index, state, root, time.time()))
                    if view.pulse is not None:
                        view.pulse(Context(index, state, root, time.time()))
                    for rows in view.exports.values() if query == f"view={view.name}" else ():
                        list(rows(Context(index, state, root, time.time())))
                except Exception as error:
                    if type(error).__name__ not in ("UnknownRollout", "UnknownRun"):
                        raise AssertionError(query) from error
    finally:
        shutil.rmtree(root)
