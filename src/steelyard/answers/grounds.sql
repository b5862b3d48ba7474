-- What every answer stands on: the posting run, the known stretch of time, who was watching, the findings, the balance.

-- name: posting
-- The last one, without a sort: that alone would cost more than the rest.
SELECT arg_max(CAST(definitions AS VARCHAR), (posted_at, run_id)) AS definitions
FROM ledger.posting_run;

-- name: known_time
-- A stamp of a pod that ended, or that starts later than it was seen, is no sighting: it counts only where there is no other.
SELECT
    cluster,
    TRUE AS watched,
    epoch_us(min(started_at)) AS first_us,
    epoch_us(
        max(known_to_at) FILTER (
            WHERE (ended_at IS NULL AND known_to_at > started_at) OR end_basis IN ('declared', 'trace', 'claim_deallocated')
        )
    ) AS last_us,
    epoch_us(max(known_to_at)) AS stamp_us
FROM ledger.holding_entry
GROUP BY cluster
UNION ALL
SELECT cluster, watched, epoch_us(first_at), epoch_us(last_at), NULL
FROM dim.known_span;

-- name: clusters_with_cards
SELECT cluster
FROM dim.device
UNION
SELECT cluster
FROM dim.node_capacity;

-- name: watched
SELECT scope
FROM (
    SELECT
        scope,
        max(occurred_at) FILTER (WHERE occurred_at <= make_timestamp($at_us)) AS before_at,
        min(occurred_at) FILTER (WHERE occurred_at >= make_timestamp($at_us)) AS after_at,
        arg_min(gap_max_us, occurred_at) FILTER (WHERE occurred_at >= make_timestamp($at_us)) AS gap_max_us,
        coalesce(
            bool_or(make_timestamp($at_us) BETWEEN observed_from_at AND observed_to_at), FALSE
        ) AS throughout
    FROM fact.source_status
    WHERE cluster = $cluster
        AND complete
        AND status = 'ok'
        AND kind IN ('pods', 'trace')
    GROUP BY scope, kind
) AS around
WHERE throughout
    OR before_at = after_at
    OR epoch_us(after_at) - epoch_us(before_at) <= gap_max_us
ORDER BY scope;

-- name: sources
SELECT cluster, source, kind, count(*) AS rounds, epoch_us(max(occurred_at)) AS last_us, max(as_of_basis) AS basis
FROM fact.source_status
WHERE status <> 'failed'
GROUP BY cluster, source, kind
ORDER BY cluster, source, kind;

-- name: findings
SELECT code, severity, subject, message, count(*) OVER () AS total
FROM (
    SELECT code, severity, subject, message, cluster FROM fact.finding
    UNION ALL
    SELECT code, severity, subject, message, cluster FROM ledger.finding
) AS both_kinds
WHERE $cluster::VARCHAR IS NULL OR cluster = $cluster
GROUP BY code, severity, subject, message
ORDER BY
    CASE severity WHEN 'error' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END,
    code, subject, message
LIMIT $listed_max;

-- name: residual
SELECT coalesce(sum(abs(residual)), 0) AS residual_gpu_us, count(*) AS balances
FROM (
    SELECT
        sum(
            CASE account WHEN 'supply' THEN amount_gpu_us WHEN 'overcommitted' THEN 0 ELSE -amount_gpu_us END
        ) AS residual
    FROM ledger.supply
    WHERE grain_at >= make_timestamp($from_us)
        AND grain_at < make_timestamp($to_us)
    GROUP BY cluster, place_kind, place_id, grain_at
) AS balance;
