"""The same patches, graded by the official SWE-bench harness and by the SDK on the same images.

``python -m benchmarks.parity --help``. Verdicts, statuses of single tests and times come side by side; what differs is
named. The harness is the package ``swebench``, run by its own command line.
"""
