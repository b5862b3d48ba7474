-- What cards report of which somebody holds a part that a sharing layer gave: several rows of one instant are one, the larger figures, none where they contradict each other. More memory than
-- the card has is none, and profiling counters that read 0 while 203 is above a half are none. Only of cards on which it may matter: that show more than somebody there has a
-- right to, or of which the layer counts what pods use.
WITH
held AS (
    SELECT cluster, device_uuid, min(least(memory_mib, 100000000)) AS memory_mib, min(cores_percent) AS cores_percent
    FROM dim.excess_held
    WHERE unit_kind = 'vgpu' AND device_uuid IS NOT NULL AND from_us < CAST($read_to_us AS BIGINT) AND to_us > CAST($read_from_us AS BIGINT)
    GROUP BY cluster, device_uuid
),

most AS (
    SELECT cluster, device_uuid, max(memory_used_mib) AS memory_mib, max(greatest(util_gpu_ratio, sm_active_ratio)) AS ratio
    FROM fact.device_sample
    WHERE gi IS NULL AND occurred_at BETWEEN make_timestamp(CAST($read_from_us AS BIGINT)) AND make_timestamp(CAST($read_to_us AS BIGINT))
    GROUP BY cluster, device_uuid
),

card AS (
    SELECT held.cluster, held.device_uuid
    FROM held
    JOIN most ON most.cluster = held.cluster AND most.device_uuid = held.device_uuid
    WHERE most.memory_mib > held.memory_mib OR most.ratio * 100 > held.cores_percent
    UNION
    SELECT held.cluster, held.device_uuid
    FROM held
    JOIN fact.partition_sample AS counted
        ON counted.cluster = held.cluster AND counted.device_uuid = held.device_uuid AND counted.origin = 'monitor'
        AND counted.occurred_at BETWEEN make_timestamp(CAST($read_from_us AS BIGINT)) AND make_timestamp(CAST($read_to_us AS BIGINT))
)

SELECT
    cluster, device_uuid, epoch_us(occurred_at) AS instant_us, max(interval_us) AS interval_us,
    agreed_mib(
        min(CASE WHEN memory_used_mib BETWEEN 0 AND coalesce(memory_total_mib, 100000000) THEN memory_used_mib END),
        max(CASE WHEN memory_used_mib BETWEEN 0 AND coalesce(memory_total_mib, 100000000) THEN memory_used_mib END)
    ) AS used_mib,
    coalesce(
        CASE WHEN NOT coalesce(agreed_ppm(min(ratio_ppm(util_gpu_ratio)), max(ratio_ppm(util_gpu_ratio))) > 500000 AND agreed_ppm(min(ratio_ppm(gr_active_ratio)), max(ratio_ppm(gr_active_ratio))) = 0, FALSE) THEN agreed_ppm(min(ratio_ppm(sm_active_ratio)), max(ratio_ppm(sm_active_ratio))) END,
        agreed_ppm(min(ratio_ppm(util_gpu_ratio)), max(ratio_ppm(util_gpu_ratio)))
    ) AS used_ppm
FROM fact.device_sample
WHERE gi IS NULL
    AND (cluster, device_uuid) IN (SELECT (cluster, device_uuid) FROM card)
    AND occurred_at BETWEEN (SELECT history_from_at FROM dim.parameter) AND (SELECT horizon_at FROM dim.parameter)
    AND occurred_at BETWEEN make_timestamp(CAST($read_from_us AS BIGINT)) AND make_timestamp(CAST($read_to_us AS BIGINT))
GROUP BY cluster, device_uuid, occurred_at
