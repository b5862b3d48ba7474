-- The minutes of each hour in which a card was measured, one bit each: the whole history of samples in one narrow pass over two columns.
-- The time that is posted begins and ends with an hour, so hours are asked, not rows. The trick to know: rows without any value (a lost card) and rows that stand for minutes are few; the engine finds them by the statistics of
-- its blocks. A card that has rows without any value is looked at again, row by row.
WITH
blank_card AS (
    SELECT DISTINCT cluster, device_uuid
    FROM fact.device_sample
    WHERE memory_used_mib IS NULL AND util_gpu_ratio IS NULL AND sm_active_ratio IS NULL AND gr_active_ratio IS NULL
        AND dram_active_ratio IS NULL AND power_watts IS NULL AND temperature_celsius IS NULL
),

sampled AS (
    SELECT
        cluster, device_uuid, date_trunc('hour', occurred_at) AS hour_at,
        bit_or(CAST(1 AS BIGINT) << minute(occurred_at)) AS minutes_mask,
        min(occurred_at) AS first_at,
        max(occurred_at) AS last_at
    FROM fact.device_sample
    GROUP BY cluster, device_uuid, date_trunc('hour', occurred_at)
),

checked AS (
    SELECT
        cluster, device_uuid, date_trunc('hour', occurred_at) AS hour_at,
        bit_or(CAST(1 AS BIGINT) << minute(occurred_at)) AS minutes_mask,
        min(occurred_at) AS first_at,
        max(occurred_at) AS last_at
    FROM fact.device_sample
    WHERE device_uuid IN (SELECT device_uuid FROM blank_card)
        AND (
            memory_used_mib IS NOT NULL OR util_gpu_ratio IS NOT NULL OR sm_active_ratio IS NOT NULL OR gr_active_ratio IS NOT NULL
            OR dram_active_ratio IS NOT NULL OR power_watts IS NOT NULL OR temperature_celsius IS NOT NULL
        )
    GROUP BY cluster, device_uuid, date_trunc('hour', occurred_at)
),

-- Rows that stand for two minutes or more light further minutes, also of the next hour, and reach to their end (an hour at most).
long AS (
    SELECT
        cluster, device_uuid, date_trunc('hour', occurred_at) AS hour_at,
        lit_minutes(minute(occurred_at), interval_us) AS minutes_mask,
        lit_minutes_of_next_hour(minute(occurred_at), interval_us) AS spilled_mask,
        make_timestamp(epoch_us(occurred_at) + CASE WHEN interval_us <= 3600000000 THEN interval_us ELSE 0 END) AS until_at
    FROM fact.device_sample
    WHERE interval_us >= 120000000
        AND (
            memory_used_mib IS NOT NULL OR util_gpu_ratio IS NOT NULL OR sm_active_ratio IS NOT NULL OR gr_active_ratio IS NOT NULL
            OR dram_active_ratio IS NOT NULL OR power_watts IS NOT NULL OR temperature_celsius IS NOT NULL
        )
),

lit AS (
    SELECT cluster, device_uuid, hour_at, bit_or(minutes_mask) AS minutes_mask, max(until_at) AS until_at
    FROM (
        SELECT cluster, device_uuid, hour_at, minutes_mask, until_at
        FROM long
        WHERE hour_at BETWEEN (SELECT history_from_at FROM dim.parameter) AND (SELECT horizon_at FROM dim.parameter)
        UNION ALL
        SELECT cluster, device_uuid, hour_at + INTERVAL 1 HOUR, spilled_mask, until_at
        FROM long
        WHERE spilled_mask <> 0 AND hour_at BETWEEN (SELECT history_from_at FROM dim.parameter) AND (SELECT horizon_at FROM dim.parameter)
    ) AS lit_by_any
    GROUP BY cluster, device_uuid, hour_at
),

short AS (
    SELECT sampled.cluster, sampled.device_uuid, sampled.hour_at, sampled.minutes_mask, sampled.first_at, sampled.last_at
    FROM sampled
    LEFT JOIN blank_card ON blank_card.device_uuid = sampled.device_uuid AND blank_card.cluster = sampled.cluster
    WHERE blank_card.device_uuid IS NULL AND sampled.hour_at BETWEEN (SELECT history_from_at FROM dim.parameter) AND (SELECT horizon_at FROM dim.parameter)
    UNION ALL
    SELECT checked.cluster, checked.device_uuid, checked.hour_at, checked.minutes_mask, checked.first_at, checked.last_at
    FROM checked
    JOIN blank_card ON blank_card.device_uuid = checked.device_uuid AND blank_card.cluster = checked.cluster
    WHERE checked.hour_at BETWEEN (SELECT history_from_at FROM dim.parameter) AND (SELECT horizon_at FROM dim.parameter)
)

SELECT
    short.cluster, short.device_uuid, short.hour_at,
    short.minutes_mask | coalesce(lit.minutes_mask, 0) AS minutes_mask,
    short.first_at,
    greatest(short.last_at, lit.until_at) AS last_at
FROM short
LEFT JOIN lit ON lit.cluster = short.cluster AND lit.device_uuid = short.device_uuid AND lit.hour_at = short.hour_at
UNION ALL
SELECT lit.cluster, lit.device_uuid, lit.hour_at, lit.minutes_mask, NULL, lit.until_at
FROM lit
LEFT JOIN short ON short.cluster = lit.cluster AND short.device_uuid = lit.device_uuid AND short.hour_at = lit.hour_at
WHERE short.cluster IS NULL
