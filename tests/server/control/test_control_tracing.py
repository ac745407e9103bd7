"""The trace context rides on control calls: a participant's spans belong to the trainer's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import httpx
from opentelemetry.sdk import trace

from swe_sdk.checkpoint import ModelParticipant
from swe_sdk.checkpoint.call_gate import CallGate
from swe_sdk.server.control import serve_control
from tests.checkpoint.house import resume
from tests.checkpoint.test_telemetry import told
from tests.checkpoint.virtual import simulated
from tests.server.control.over_http import SETTINGS, TOKEN
from tests.server.control.test_control_client import Failing, client_of

__all__ = ["told"]
TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_a_participant_goes_on_with_the_trace_that_comes_along(told: tuple[Any, Any], tmp_path: Path) -> None:
    async def main() -> None:
        async with ModelParticipant(gate=CallGate()) as one, serve_control(one, SETTINGS) as url:
            headers = {"Authorization": f"Bearer {TOKEN}", "traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
            async with httpx.AsyncClient(base_url=url, headers=headers) as client:
                body = {"checkpoint_id": "c1", "deadline_ts": 4e9}
                assert (await client.post("/ng-control/v1/checkpoint/prepare", json=body)).status_code == 200

    anyio.run(main)
    spans, _reader = told
    assert {format(span.context.trace_id, "032x") for span in spans.get_finished_spans()} == {TRACE}


@simulated
async def test_the_client_sends_the_current_trace_along() -> None:
    answer = Failing(0, None)
    with trace.TracerProvider().get_tracer("tests").start_as_current_span("save") as span:
        await resume(client_of(answer))
    told_trace = answer.asked[0].headers["traceparent"].split("-")[1]
    assert told_trace == format(span.get_span_context().trace_id, "032x")
