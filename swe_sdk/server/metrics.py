"""What Prometheus reads, by prometheus-client (the extra ``server``)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from swe_sdk.errors import PrerequisiteError
from swe_sdk.model.outcome import Outcome
from swe_sdk.server.watching import Watcher

if TYPE_CHECKING:
    from prometheus_client import Histogram

    from swe_sdk.server.admission import ServerAdmission

_SECONDS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000)


class Metrics(Watcher):
    """A registry of its own, so that several servers may live in one process.

    ``PrerequisiteError`` where prometheus-client is not installed.
    """

    def __init__(self) -> None:
        try:
            from prometheus_client import CollectorRegistry, Counter, Histogram
        except ImportError:
            problem = "/metrics needs prometheus-client"
            raise PrerequisiteError(problem, remedy="pip install 'swe_sdk[server]', or leave /metrics out") from None
        self._registry = one = CollectorRegistry()
        self._responses = Counter("swe_sdk_responses", "Answers, by path and status.", ("path", "status"), registry=one)
        self._outcomes = Counter("swe_sdk_outcomes", "Verdicts that posts have got.", ("status",), registry=one)
        self._masks = Counter("swe_sdk_masks", "Masks among them, by kind and stage.", ("kind", "stage"), registry=one)
        self._posts_s = Histogram("swe_sdk_post_seconds", "From a post to its verdict.", buckets=_SECONDS, registry=one)
        self._evaluations_s = Histogram(
            "swe_sdk_evaluation_seconds",
            "Evaluations, and verdicts that were had again.",
            buckets=_SECONDS,
            registry=one,
        )

    def watch(self, admission: ServerAdmission) -> None:
        """Show how busy a server is as well."""
        from prometheus_client import Gauge

        shown = {
            "swe_sdk_posts": ("Posts being answered.", lambda: admission.posts),
            "swe_sdk_evaluations_running": ("Evaluations under way.", lambda: admission.running),
            "swe_sdk_evaluations_waiting": ("Evaluations that wait for a worker.", lambda: admission.waiting),
        }
        for name, (meaning, value) in shown.items():
            Gauge(name, meaning, registry=self._registry).set_function(value)

    def exposition(self) -> tuple[bytes, str]:
        """The text that Prometheus reads, and its media type."""
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def verification(self) -> AbstractContextManager[None]:
        """Timed."""
        return _timed(self._posts_s)

    def evaluation(self) -> AbstractContextManager[None]:
        """Timed."""
        return _timed(self._evaluations_s)

    def answered(self, outcome: Outcome) -> None:
        """Counted, masks by kind."""
        self._outcomes.labels(outcome.status).inc()
        if outcome.mask is not None:
            self._masks.labels(outcome.mask.kind, outcome.mask.stage).inc()

    def responded(self, path: str, status: int) -> None:
        """Counted."""
        self._responses.labels(path, str(status)).inc()


@contextmanager
def _timed(histogram: Histogram) -> Iterator[None]:
    started = time.monotonic()
    try:
        yield
    finally:
        histogram.observe(time.monotonic() - started)
