-- The minutes of each hour in which a card was measured, one bit each: the whole history of samples in one narrow pass. A row counts as
-- measured where it has any value at all. The trick to know: nearly all rows tell their memory and stand for less than two minutes; the
-- few others are looked for apart, where the engine skips whole blocks by their statistics.
WITH
sampled AS (
    SELECT
        cluster, device_uuid, date_trunc('hour', occurred_at) AS hour_at,
        bit_or(CAST(1 AS BIGINT) << minute(occurred_at)) AS minutes_mask,
        min(occurred_at) AS first_at,
        max(epoch_us(occurred_at) + CASE WHEN interval_us BETWEEN 1 AND 3600000000 THEN interval_us ELSE 0 END) AS last_us
    FROM fact.device_sample
    WHERE memory_used_mib IS NOT NULL
    GROUP BY cluster, device_uuid, date_trunc('hour', occurred_at)
),

-- Rows without memory, and rows that stand for several minutes (those light further minutes, also of the next hour).
special AS (
    SELECT
        cluster, device_uuid, occurred_at, date_trunc('hour', occurred_at) AS hour_at,
        CASE WHEN interval_us BETWEEN 1 AND 3600000000 THEN interval_us ELSE 0 END AS stands_us,
        lit_minutes(minute(occurred_at), interval_us) AS minutes_mask,
        lit_minutes_of_next_hour(minute(occurred_at), interval_us) AS spilled_mask
    FROM fact.device_sample
    WHERE memory_used_mib IS NULL
        AND (
            util_gpu_ratio IS NOT NULL OR sm_active_ratio IS NOT NULL OR gr_active_ratio IS NOT NULL OR dram_active_ratio IS NOT NULL
            OR power_watts IS NOT NULL OR temperature_celsius IS NOT NULL
        )
    UNION ALL
    SELECT
        cluster, device_uuid, occurred_at, date_trunc('hour', occurred_at),
        CASE WHEN interval_us <= 3600000000 THEN interval_us ELSE 0 END,
        lit_minutes(minute(occurred_at), interval_us),
        lit_minutes_of_next_hour(minute(occurred_at), interval_us)
    FROM fact.device_sample
    WHERE memory_used_mib IS NOT NULL AND interval_us >= 120000000
),

lit AS (
    SELECT
        cluster, device_uuid, hour_at, bit_or(minutes_mask) AS minutes_mask, min(first_at) AS first_at, max(last_us) AS last_us
    FROM (
        SELECT
            cluster, device_uuid, hour_at, minutes_mask, occurred_at AS first_at, epoch_us(occurred_at) + stands_us AS last_us
        FROM special
        UNION ALL
        SELECT cluster, device_uuid, hour_at + INTERVAL 1 HOUR, spilled_mask, NULL, NULL
        FROM special
        WHERE spilled_mask <> 0
    ) AS lit_by_any
    GROUP BY cluster, device_uuid, hour_at
)

SELECT
    sampled.cluster, sampled.device_uuid, sampled.hour_at,
    sampled.minutes_mask | coalesce(lit.minutes_mask, 0) AS minutes_mask,
    least(sampled.first_at, lit.first_at) AS first_at,
    make_timestamp(greatest(sampled.last_us, lit.last_us)) AS last_at
FROM sampled
LEFT JOIN lit ON lit.cluster = sampled.cluster AND lit.device_uuid = sampled.device_uuid AND lit.hour_at = sampled.hour_at
UNION ALL
SELECT lit.cluster, lit.device_uuid, lit.hour_at, lit.minutes_mask, lit.first_at, make_timestamp(lit.last_us)
FROM lit
LEFT JOIN sampled
    ON sampled.cluster = lit.cluster AND sampled.device_uuid = lit.device_uuid AND sampled.hour_at = lit.hour_at
WHERE sampled.cluster IS NULL
