"""Spans and durations, with OpenTelemetry and without."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk import metrics, trace
from opentelemetry.sdk.metrics import export
from opentelemetry.sdk.trace import export as processors
from opentelemetry.sdk.trace.export import in_memory_span_exporter as memory

from swe_sdk.checkpoint import CheckpointController, telemetry
from swe_sdk.errors import CheckpointError
from tests.checkpoint.house import ep, house, prepare, refused
from tests.checkpoint.virtual import clock, simulate


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any]]:
    """An exporter of spans and a reader of metrics, for one test."""
    spans, reader = memory.InMemorySpanExporter(), export.InMemoryMetricReader()
    tracers = trace.TracerProvider()
    tracers.add_span_processor(processors.SimpleSpanProcessor(spans))
    meters = metrics.MeterProvider(metric_readers=[reader])

    class Api:
        trace = type("T", (), {"get_tracer": staticmethod(tracers.get_tracer)})
        metrics = type("M", (), {"get_meter": staticmethod(meters.get_meter)})

    monkeypatch.setattr(telemetry, "_api", lambda: Api)
    yield spans, reader
    tracers.shutdown()
    meters.shutdown()


def test_every_operation_has_a_span_release_included(told: tuple[Any, Any], tmp_path: Path) -> None:
    spans, reader = told

    async def test() -> None:
        async with house(tmp_path) as one:
            control = CheckpointController(one.coordinator, tmp_path, clock=clock)
            async with one.episodes.episode(ep("r"), task="t", total_s=None) as episode, episode.step("replay"):
                await control.save()
        async with house(tmp_path) as one:
            await CheckpointController(one.coordinator, tmp_path, clock=clock).restore()

    simulate(test)
    finished = spans.get_finished_spans()
    names = {span.name for span in finished}
    operations = {f"gym.checkpoint.{name}" for name in ("prepare", "renew", "commit", "resume", "restore", "release")}
    assert operations <= names
    assert {f"gym.checkpoint.{name}" for name in ("wait_ready", "export", "write", "read", "install")} <= names
    coordinated = {name.removeprefix("gym.checkpoint.coordinate.") for name in names if ".coordinate." in name}
    assert {"prepare", "prepare.environment", "prepare.model", "commit", "resume", "restore", "release"} <= coordinated
    by_name = {span.name: span for span in finished}
    commit = next(
        span
        for span in finished
        if span.name == "gym.checkpoint.commit" and span.attributes["participant_kind"] == "environment"
    )
    assert commit.attributes["instance"] == "episodes"
    assert commit.attributes["id"].startswith("checkpoint-000001")
    assert by_name["gym.checkpoint.write"].attributes["bytes"] >= 0
    ids = {span.context.span_id: span.name for span in finished}
    parents = {
        ids.get(span.parent.span_id) for span in finished if span.name == "gym.checkpoint.commit" and span.parent
    }
    assert parents == {"gym.checkpoint.coordinate.commit"}
    points = [
        point.attributes
        for resource in reader.get_metrics_data().resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    ]
    assert {"operation": "commit", "kind": "agent", "outcome": "ok"} in points


def test_a_refusal_is_told_by_its_code(told: tuple[Any, Any], tmp_path: Path) -> None:
    spans, _ = told

    async def test() -> None:
        async with house(tmp_path) as one:
            await prepare(one.agent, "c1")
            with refused("checkpoint_conflict"):
                await prepare(one.agent, "c2")

    simulate(test)
    last = spans.get_finished_spans()[-1]
    assert last.status.is_ok is False
    assert "checkpoint_conflict" in last.status.description


def test_without_opentelemetry_nothing_is_missing() -> None:
    code = """
import sys
sys.modules["opentelemetry"] = sys.modules["opentelemetry.trace"] = None
from swe_sdk.checkpoint.telemetry import operation
with operation("commit", kind="agent") as span:
    span.set_attribute("bytes", 1)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
    with pytest.raises(CheckpointError), telemetry.operation("commit", kind="agent"):
        raise CheckpointError("invalid_phase", "not now")


def test_importing_it_is_light() -> None:
    heavy = ("opentelemetry", "docker", "httpx", "pandas")
    code = f"import sys, swe_sdk.checkpoint; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60) == "[]\n"
