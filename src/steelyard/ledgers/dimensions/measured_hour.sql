-- The minutes of each hour in which a card was measured, one bit each: the whole history of samples in one pass.
-- A row counts as measured where it has any value at all. Samples that stand for several minutes are few and are lit apart.
WITH sampled_hour AS (
    SELECT
        cluster, device_uuid, date_trunc('hour', occurred_at) AS hour_at,
        bit_or(CAST(1 AS BIGINT) << minute(occurred_at)) AS minutes_mask,
        min(occurred_at) AS first_at,
        max(epoch_us(occurred_at) + CASE WHEN interval_us BETWEEN 1 AND 3600000000 THEN interval_us ELSE 0 END) AS last_us
    FROM fact.device_sample
    WHERE memory_used_mib IS NOT NULL OR util_gpu_ratio IS NOT NULL OR sm_active_ratio IS NOT NULL OR gr_active_ratio IS NOT NULL
        OR dram_active_ratio IS NOT NULL OR power_watts IS NOT NULL OR temperature_celsius IS NOT NULL
    GROUP BY cluster, device_uuid, date_trunc('hour', occurred_at)
),

long_sample_hour AS (
    SELECT
        cluster, device_uuid, date_trunc('hour', occurred_at) AS hour_at,
        bit_or(lit_minutes(minute(occurred_at), interval_us)) AS minutes_mask,
        bit_or(lit_minutes_of_next_hour(minute(occurred_at), interval_us)) AS spilled_mask
    FROM fact.device_sample
    WHERE interval_us >= 120000000
        AND (
            memory_used_mib IS NOT NULL OR util_gpu_ratio IS NOT NULL OR sm_active_ratio IS NOT NULL OR gr_active_ratio IS NOT NULL
            OR dram_active_ratio IS NOT NULL OR power_watts IS NOT NULL OR temperature_celsius IS NOT NULL
        )
    GROUP BY cluster, device_uuid, date_trunc('hour', occurred_at)
)

SELECT
    cluster, device_uuid, hour_at, bit_or(minutes_mask) AS minutes_mask,
    min(first_at) AS first_at, make_timestamp(max(last_us)) AS last_at
FROM (
    SELECT cluster, device_uuid, hour_at, minutes_mask, first_at, last_us FROM sampled_hour
    UNION ALL
    SELECT cluster, device_uuid, hour_at, minutes_mask, NULL, NULL FROM long_sample_hour
    UNION ALL
    SELECT cluster, device_uuid, hour_at + INTERVAL 1 HOUR, spilled_mask, NULL, NULL FROM long_sample_hour WHERE spilled_mask <> 0
) AS lit
GROUP BY cluster, device_uuid, hour_at
