-- What each owner's guaranteed quota left unused in each grain of the window and nobody borrowed, in GPU-time: nominal less used, less what the pool lent, in parts as members left
-- unused. Quota of whole cards alone; of an owner with quota of several kinds the larger. What is not known is nobody's.
WITH
whole AS (
    SELECT cluster FROM dim.device GROUP BY cluster HAVING coalesce(max(slots_count), 1) > 1
),

said AS (
    SELECT
        quota.cluster, quota.queue_kind, quota.queue, quota.namespace, quota.flavor, quota.resource, epoch_us(quota.grain_at) AS grain_us_at,
        quota.nominal_milli_us, quota.used_milli_us, quota.borrowed_milli_us, key.pool, key.shares, key.key_no
    FROM ledger.quota AS quota
    LEFT JOIN dim.quota_key AS key
        ON key.cluster = quota.cluster AND key.queue_kind = quota.queue_kind AND key.queue IS NOT DISTINCT FROM quota.queue
        AND key.namespace IS NOT DISTINCT FROM quota.namespace AND key.flavor IS NOT DISTINCT FROM quota.flavor
        AND key.resource IS NOT DISTINCT FROM quota.resource
    WHERE quota.grain_at >= make_timestamp(CAST($from_us AS BIGINT)) AND quota.grain_at < make_timestamp(CAST($to_us AS BIGINT))
        AND regexp_full_match(quota.resource, '(requests\.)?(gpu|[^/]+/(gpu|npu|xpu|dcu|gcu|mlu|pgpu))')
        AND NOT coalesce(key.is_rollup, FALSE) AND quota.queue_kind <> 'cohort'
        AND quota.cluster NOT IN (SELECT cluster FROM whole)
),

member AS (
    SELECT *, greatest(0, nominal_milli_us - used_milli_us) AS unused_milli_us
    FROM said
    WHERE queue_kind <> 'pool' AND nominal_milli_us IS NOT NULL AND used_milli_us IS NOT NULL
),

pooled AS (
    SELECT
        member.*, pool.borrowed_milli_us AS lent_milli_us,
        sum(member.unused_milli_us) OVER (PARTITION BY member.cluster, member.pool, member.queue_kind, member.flavor, member.resource, member.grain_us_at) AS pool_unused_milli_us
    FROM member
    LEFT JOIN said AS pool
        ON pool.queue_kind = 'pool' AND pool.cluster = member.cluster AND pool.queue = member.pool AND pool.flavor IS NOT DISTINCT FROM member.flavor
        AND pool.resource IS NOT DISTINCT FROM member.resource AND pool.grain_us_at = member.grain_us_at
),

left_over AS (
    SELECT
        cluster, queue_kind, queue, namespace, grain_us_at,
        CASE
            WHEN NOT coalesce(shares, FALSE) THEN unused_milli_us
            WHEN pool_unused_milli_us > 0
                THEN CAST(
                    unused_milli_us - CAST(least(lent_milli_us, pool_unused_milli_us) AS HUGEINT) * unused_milli_us // pool_unused_milli_us AS BIGINT
                )
        END AS unused_milli_us
    FROM pooled
),

owned AS (
    SELECT left_over.cluster, owner.owner, left_over.queue_kind, left_over.grain_us_at, CAST(sum(left_over.unused_milli_us) // 1000 AS BIGINT) AS unused_gpu_us
    FROM left_over
    JOIN dim.cost_owner AS owner
        ON owner.cluster = left_over.cluster AND owner.queue_kind = left_over.queue_kind AND owner.queue IS NOT DISTINCT FROM left_over.queue
        AND owner.namespace IS NOT DISTINCT FROM left_over.namespace
    CROSS JOIN dim.money_policy AS policy
    WHERE policy.reserved_unused <> 'none' AND left_over.unused_milli_us > 0
    GROUP BY left_over.cluster, owner.owner, left_over.queue_kind, left_over.grain_us_at
)

SELECT cluster, owner, grain_us_at, max(unused_gpu_us) AS unused_gpu_us
FROM owned
WHERE unused_gpu_us > 0
GROUP BY cluster, owner, grain_us_at
