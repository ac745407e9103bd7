"""What a run came to, as pure functions of plain facts: no number hides what could not be measured."""

from swe_sdk.metrics.comparison import Comparison, TaskPair
from swe_sdk.metrics.facts import RolloutFacts
from swe_sdk.metrics.intervals import bootstrap, wilson
from swe_sdk.metrics.paired import PairedDifference, exact_mcnemar, paired_difference
from swe_sdk.metrics.passes import PassAtK, pass_at_k
from swe_sdk.metrics.summary import RunMetrics, run_metrics

__all__ = [
    "Comparison",
    "PairedDifference",
    "PassAtK",
    "RolloutFacts",
    "RunMetrics",
    "TaskPair",
    "bootstrap",
    "exact_mcnemar",
    "paired_difference",
    "pass_at_k",
    "run_metrics",
    "wilson",
]
