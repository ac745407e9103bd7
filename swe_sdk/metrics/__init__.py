"""What a run came to, as pure functions of plain facts: no number hides what could not be measured."""

from swe_sdk.metrics.facts import RolloutFacts
from swe_sdk.metrics.intervals import bootstrap, wilson
from swe_sdk.metrics.passes import PassAtK, pass_at_k
from swe_sdk.metrics.summary import RunMetrics, run_metrics

__all__ = ["PassAtK", "RolloutFacts", "RunMetrics", "bootstrap", "pass_at_k", "run_metrics", "wilson"]
