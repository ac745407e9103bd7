"""What the SDK costs, as ratios between things that were measured in one run.

``python -m benchmarks`` runs them all; every benchmark is a module with one coroutine, ``rows(lab)``.
"""
