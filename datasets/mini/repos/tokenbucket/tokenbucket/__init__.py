"""Token buckets."""

from .bucket import TokenBucket
from .clock import ManualClock
from .limiter import Limiter

__all__ = ["Limiter", "ManualClock", "TokenBucket"]
