"""What the row of a rollout is, given all that is known of it: one statement over the other tables.

Because it is computed from them, and they do not depend on the order in which lines came, neither does it.
"""

from __future__ import annotations

DERIVE = """
UPDATE rollouts SET
    status = d.status, stage = d.stage, attempt = d.attempt, provider = d.provider, restored_from = d.restored_from,
    reward = d.reward, mask_kind = d.mask_kind, mask_stage = d.mask_stage, reason = d.reason, flags = d.flags,
    total_s = d.total_s, spent_s = d.spent_s, parked_s = d.parked_s, queued_s = d.queued_s, remaining_s = d.remaining_s,
    steps = d.steps, tokens_in = d.tokens_in, tokens_out = d.tokens_out, model_calls = d.model_calls,
    fail_to_pass_passed = d.fail_to_pass_passed, fail_to_pass_total = d.fail_to_pass_total,
    pass_to_pass_passed = d.pass_to_pass_passed, pass_to_pass_total = d.pass_to_pass_total,
    patch_sha256 = d.patch_sha256, started_at = d.started_at, ended_at = d.ended_at,
    seconds = d.ended_at - d.started_at,
    updated_at = max(coalesce(rollouts.updated_at, d.touched_at), d.touched_at), seq = :seq
FROM (
    SELECT
        s.rid, s.touched_at, s.attempt, s.started_at, coalesce(s.steps, 0) AS steps,
        coalesce(s.model_calls, 0) AS model_calls,
        coalesce(iif(s.model_calls, s.call_tokens_in, s.step_tokens_in), 0) AS tokens_in,
        coalesce(iif(s.model_calls, s.call_tokens_out, s.step_tokens_out), 0) AS tokens_out,
        CASE
            WHEN s.is_over THEN e.status
            WHEN a.rid IS NULL THEN 'queued'
            WHEN a.end_t IS NOT NULL AND a.will_retry THEN 'retrying'
            WHEN a.end_t IS NULL AND a.is_parked THEN 'parked'
            ELSE 'running'
        END AS status,
        CASE WHEN NOT s.is_over AND a.end_t IS NULL THEN (
            SELECT g.stage FROM stages AS g
            WHERE g.rid = s.rid AND g.attempt = s.attempt AND g.end_t IS NULL
            ORDER BY g.start_t DESC, g.stage LIMIT 1
        ) END AS stage,
        coalesce(nullif(a.provider, ''), nullif(o.provider, ''), s.queued_provider) AS provider,
        a.restored_from,
        CASE WHEN s.is_over THEN e.reward END AS reward,
        CASE WHEN s.is_over AND e.status = 'masked' THEN m.kind END AS mask_kind,
        CASE WHEN s.is_over AND e.status = 'masked' THEN m.stage END AS mask_stage,
        CASE
            WHEN NOT s.is_over THEN ''
            ELSE coalesce(nullif(e.reason, ''), nullif(o.reason, ''), json_extract(m.mask, '$.reason'), '')
        END AS reason,
        coalesce(o.flags, '[]') AS flags,
        b.total_s, coalesce(b.spent_s, 0) AS spent_s, coalesce(b.parked_s, 0) AS parked_s,
        coalesce(b.queued_s, 0) AS queued_s, max(b.total_s - b.spent_s, 0) AS remaining_s,
        o.fail_to_pass_passed, o.fail_to_pass_total, o.pass_to_pass_passed, o.pass_to_pass_total, o.patch_sha256,
        CASE WHEN s.is_over THEN e.end_t END AS ended_at
    FROM (
        SELECT
            t.rid, t.touched_at, r.queued_provider, coalesce(x.attempt >= u.latest, x.attempt IS NOT NULL) AS is_over,
            coalesce(iif(x.attempt >= u.latest, x.attempt, u.latest), x.attempt, 0) AS attempt, u.*
        FROM touched AS t
        JOIN rollouts AS r ON r.rid = t.rid
        LEFT JOIN endings AS x ON x.rid = t.rid
        LEFT JOIN (
            SELECT
                rid AS of_rid, max(attempt) AS latest, min(start_t) AS started_at, sum(steps) AS steps,
                sum(calls) AS model_calls, sum(step_tokens_in) AS step_tokens_in,
                sum(step_tokens_out) AS step_tokens_out, sum(call_tokens_in) AS call_tokens_in,
                sum(call_tokens_out) AS call_tokens_out
            FROM attempts WHERE rid IN (SELECT rid FROM touched) GROUP BY rid
        ) AS u ON u.of_rid = t.rid
    ) AS s
    LEFT JOIN endings AS e ON e.rid = s.rid
    LEFT JOIN attempts AS a ON a.rid = s.rid AND a.attempt = s.attempt
    LEFT JOIN outcomes AS o ON o.rid = s.rid AND o.attempt = s.attempt
    LEFT JOIN masks AS m ON m.rid = s.rid AND m.attempt = s.attempt
    LEFT JOIN budgets AS b ON b.rid = s.rid AND b.attempt = (SELECT max(attempt) FROM budgets WHERE rid = s.rid)
) AS d
WHERE rollouts.rid = d.rid
"""
