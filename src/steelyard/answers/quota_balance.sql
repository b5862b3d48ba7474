-- Quota over a window of whole grains, and at the instant of the latest word.

-- name: quota_grains
-- One row per queue, flavor and resource, and per pool. A sum is over the grains in which it is known (NULL: in none); *_of_us is the time of those.
SELECT
    quota.cluster, quota.queue_kind, quota.queue, quota.namespace, quota.flavor, quota.resource, min(key.pool) AS pool,
    coalesce(bool_or(key.is_rollup), FALSE) AS is_rollup,
    CAST(sum(quota.observed_us) AS BIGINT) AS observed_us,
    CAST(coalesce(sum(quota.observed_us) FILTER (WHERE quota.borrowed_milli_us IS NOT NULL), 0) AS BIGINT) AS borrowed_of_us,
    CAST(coalesce(sum(quota.observed_us) FILTER (WHERE quota.over_nominal_milli_us IS NOT NULL), 0) AS BIGINT) AS over_nominal_of_us,
    CAST(coalesce(sum(quota.observed_us) FILTER (WHERE quota.leaked_milli_us IS NOT NULL), 0) AS BIGINT) AS leaked_of_us,
    CAST(coalesce(sum(quota.observed_us) FILTER (WHERE quota.reserved_not_used_milli_us IS NOT NULL), 0) AS BIGINT) AS reserved_not_used_of_us,
    CAST(coalesce(sum(quota.observed_us) FILTER (WHERE quota.pending_milli_us IS NOT NULL), 0) AS BIGINT) AS pending_amount_of_us,
    CAST(sum(quota.nominal_milli_us) AS DECIMAL(38, 0)) AS nominal_milli_us,
    CAST(sum(quota.reserved_milli_us) AS DECIMAL(38, 0)) AS reserved_milli_us,
    CAST(sum(quota.used_milli_us) AS DECIMAL(38, 0)) AS used_milli_us,
    CAST(sum(quota.used_milli_us) FILTER (WHERE quota.nominal_milli_us IS NOT NULL) AS DECIMAL(38, 0)) AS used_of_nominal_milli_us,
    CAST(sum(quota.nominal_milli_us) FILTER (WHERE quota.used_milli_us IS NOT NULL) AS DECIMAL(38, 0)) AS nominal_of_used_milli_us,
    CAST(sum(quota.observed_us) FILTER (WHERE quota.used_milli_us IS NOT NULL AND quota.nominal_milli_us IS NOT NULL) AS BIGINT) AS used_of_us,
    CASE WHEN min(quota.used_basis) = max(quota.used_basis) THEN min(quota.used_basis) WHEN count(quota.used_basis) > 0 THEN 'mixed' END
        AS used_basis,
    CAST(sum(quota.borrowed_milli_us) AS DECIMAL(38, 0)) AS borrowed_milli_us,
    CAST(sum(quota.over_nominal_milli_us) AS DECIMAL(38, 0)) AS over_nominal_milli_us,
    CAST(sum(quota.lent_milli_us) AS DECIMAL(38, 0)) AS lent_milli_us,
    CAST(sum(quota.leaked_milli_us) AS DECIMAL(38, 0)) AS leaked_milli_us,
    CAST(sum(quota.reserved_not_used_milli_us) AS DECIMAL(38, 0)) AS reserved_not_used_milli_us,
    CAST(sum(quota.pending_milli_us) AS DECIMAL(38, 0)) AS pending_milli_us,
    CAST(sum(quota.idle_milli_us) AS DECIMAL(38, 0)) AS idle_milli_us,
    CAST(sum(quota.pending_us) AS BIGINT) AS pending_us,
    CAST(sum(quota.observed_us) FILTER (WHERE quota.pending_us IS NOT NULL) AS BIGINT) AS pending_of_us,
    CAST(sum(quota.pending_fits_own_us) AS BIGINT) AS fits_own_us,
    CAST(sum(quota.pending_us) FILTER (WHERE quota.pending_fits_own_us IS NOT NULL) AS BIGINT) AS fits_own_of_us,
    CAST(sum(quota.pending_fits_pool_us) AS BIGINT) AS fits_pool_us,
    CAST(sum(quota.pending_us) FILTER (WHERE quota.pending_fits_pool_us IS NOT NULL) AS BIGINT) AS fits_pool_of_us,
    CAST(sum(quota.refused_count) AS BIGINT) AS refused_count
FROM ledger.quota AS quota
LEFT JOIN dim.quota_key AS key
    ON key.cluster = quota.cluster AND key.queue_kind = quota.queue_kind AND key.queue = quota.queue AND key.resource = quota.resource
    AND key.namespace IS NOT DISTINCT FROM quota.namespace AND key.flavor IS NOT DISTINCT FROM quota.flavor
WHERE quota.grain_at >= make_timestamp($from_us) AND quota.grain_at < make_timestamp($to_us)
GROUP BY quota.cluster, quota.queue_kind, quota.queue, quota.namespace, quota.flavor, quota.resource
ORDER BY quota.cluster, quota.queue_kind, quota.queue, quota.namespace, quota.flavor, quota.resource;

-- name: quota_uncounted
-- Requests that ask for no amount of cards that there can be, by queue: while they wait, sums of their queue are not known.
SELECT cluster, coalesce(json_extract_string(evidence, '$.queue'), '') AS queue, count(DISTINCT subject) AS requests_count
FROM ledger.finding
WHERE code = 'amount_beyond_counting'
GROUP BY ALL
ORDER BY ALL;

-- name: quota_now
SELECT
    cluster, queue_kind, queue, namespace, flavor, resource, pool, epoch_us(said_at) AS said_us, nominal_milli, borrowing_limit_milli,
    lending_limit_milli, max_capacity_milli, reserved_milli, claimed_milli, used_milli, used_basis, borrowed_milli, over_nominal_milli,
    lent_milli, reserved_not_used_milli, leaked_milli, epoch_us(leaked_since_at) AS leaked_since_us, leaked_milli_us, pending_milli, idle_milli, refused
FROM dim.quota_now
ORDER BY cluster, queue_kind, queue, namespace, flavor, resource;

-- name: quota_granted
-- Of the waits that began in the window for no more than the queue's own quota: how many got it within the ceiling, how many may still.
SELECT
    wait.cluster, wait.queue, count(*) AS asked_count,
    count(*) FILTER (
        WHERE wait.ended_by = 'reserved' AND epoch_us(wait.ended_at) - epoch_us(wait.started_at) <= $ceiling_us
    ) AS granted_count,
    count(*) FILTER (WHERE wait.ended_at IS NULL AND epoch_us(wait.known_to_at) - epoch_us(wait.started_at) <= $ceiling_us) AS undecided_count
FROM ledger.wait AS wait
JOIN (
    SELECT cluster, queue, max(nominal_milli) AS nominal_milli
    FROM dim.quota_now
    WHERE queue_kind IN ('cluster_queue', 'volcano_queue')
    GROUP BY cluster, queue
) AS own ON own.cluster = wait.cluster AND own.queue = wait.queue
WHERE wait.stage = 'queue' AND wait.unknown_reason IS NULL AND wait.gpu_milli <= own.nominal_milli
    AND wait.started_at >= make_timestamp($from_us) AND wait.started_at < make_timestamp($to_us)
GROUP BY wait.cluster, wait.queue
ORDER BY wait.cluster, wait.queue;
