"""Masked attempts, counted: by what they have in common, and over time."""

from __future__ import annotations

from swe_sdk.store.database import Database
from swe_sdk.store.filters import RolloutFilter, where
from swe_sdk.store.sum_rows import MaskBucket, MaskCell, MaskTimes
from swe_sdk.store.summaries import IS_FINAL_MASK, MASKED, OneOf, one_of


def mask_cells(db: Database, chosen: RolloutFilter) -> list[MaskCell]:
    """Of the rollouts that a filter holds for; the largest cell first. Rows and columns of any table are sums of it."""
    condition = where(chosen)
    rows = db.rows(
        "SELECT u.run, m.kind, m.stage, r.provider, "
        f"{IS_FINAL_MASK} AS is_final, json_extract(m.mask, '$.retryable') AS retryable, count(*) AS attempts "
        f"{MASKED} {condition.sql} GROUP BY r.rn, m.kind, m.stage, r.provider, is_final, retryable "
        "ORDER BY attempts DESC, u.run, m.kind, m.stage",
        condition.parameters,
    )
    return [MaskCell.model_validate(dict(row)) for row in rows]


def mask_times(db: Database, chosen: RolloutFilter, kind: OneOf, stage: OneOf, buckets: int) -> MaskTimes | None:
    """Masked attempts in ``buckets`` stretches from the first to the last; None where there are none."""
    condition = one_of("m.stage", stage, one_of("m.kind", kind, where(chosen)))
    with db.snapshot():
        span = db.row(f"SELECT min(m.mask_t), max(m.mask_t) {MASKED} {condition.sql}", condition.parameters)
        assert span is not None
        if span[0] is None:
            return None
        width_s = max((span[1] - span[0]) / buckets, 1.0)
        rows = db.rows(
            "SELECT m.kind, min(CAST((m.mask_t - ?) / ? AS INTEGER), ?) AS bucket, count(*) AS attempts "
            f"{MASKED} {condition.sql} GROUP BY m.kind, bucket ORDER BY bucket, m.kind",
            (span[0], width_s, buckets - 1, *condition.parameters),
        )
    found = tuple(MaskBucket.model_validate(dict(row)) for row in rows)
    return MaskTimes(since=span[0], width_s=width_s, buckets=found)
