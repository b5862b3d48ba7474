-- The state of each sampled unit by hour: the minutes (one bit each) within [from_us, to_us) that have it. Hours with one sample a minute as they were
-- summed (dim.sample_hour), their suspected hangs taken out; the others stretch by stretch.
WITH
even AS (
    SELECT hour.cluster, hour.device_uuid, hour.gi, hour.hour_us, hour.code, hour.minutes_mask, coalesce(hang.minutes_mask, 0) AS hang_mask
    FROM dim.sample_hour AS hour
    LEFT JOIN dim.sample_odd AS odd
        ON odd.cluster = hour.cluster AND odd.device_uuid = hour.device_uuid AND odd.gi IS NOT DISTINCT FROM hour.gi AND odd.hour_us = hour.hour_us
    LEFT JOIN dim.gpu_state_hang AS hang
        ON hour.code & 31 = 7 AND hang.cluster = hour.cluster AND hang.device_uuid = hour.device_uuid
        AND hang.gi IS NOT DISTINCT FROM hour.gi AND hang.hour_us = hour.hour_us
    WHERE odd.cluster IS NULL
)

SELECT
    cluster, device_uuid, gi, hour_us, code, hour_us AS from_us, hour_us + 3600000000 AS to_us, minutes_mask & ~hang_mask AS minutes_mask
FROM even
WHERE minutes_mask & ~hang_mask <> 0
UNION ALL
SELECT cluster, device_uuid, gi, hour_us, 1 + (code & 256), hour_us, hour_us + 3600000000, bit_or(minutes_mask & hang_mask)
FROM even
WHERE minutes_mask & hang_mask <> 0
GROUP BY cluster, device_uuid, gi, hour_us, code & 256
UNION ALL
SELECT cluster, device_uuid, gi, hour_us, code, from_us, to_us, minutes_mask
FROM dim.gpu_state_odd
