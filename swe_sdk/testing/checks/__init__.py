"""What must hold of every sandbox provider: one file a topic, one function a check.

The checks use the sandbox contract, a POSIX shell and coreutils, and nothing else unless they say so (``tools``).
"""

from __future__ import annotations

from swe_sdk.testing.check import Check, registered_checks
from swe_sdk.testing.checks import (  # noqa: F401  importing them registers their checks
    background,
    environment,
    exec,
    files,
    isolation,
    lifecycle,
    limits,
    network,
    output,
    pause,
    reaping,
    snapshots,
    timeouts,
)

PROVIDER_CHECKS: tuple[Check, ...] = registered_checks()
"""Every check of the provider suite."""
