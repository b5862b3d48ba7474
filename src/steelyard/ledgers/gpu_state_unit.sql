-- The state of each sampled unit by hour: the minutes (one bit each) within [from_us, to_us) that have it. Units with one sample a minute as they were
-- grouped, their suspected hangs taken out; the others stretch by stretch.
WITH
even AS (
    SELECT minute.cluster, minute.device_uuid, minute.gi, minute.hour_us, minute.code, minute.minutes_mask, coalesce(hang.minutes_mask, 0) AS hang_mask
    FROM dim.gpu_state_minute AS minute
    LEFT JOIN (SELECT DISTINCT cluster, device_uuid, gi FROM dim.gpu_state_odd) AS odd
        ON odd.cluster = minute.cluster AND odd.device_uuid = minute.device_uuid AND odd.gi IS NOT DISTINCT FROM minute.gi
    LEFT JOIN dim.gpu_state_hang AS hang
        ON minute.code & 31 = 7 AND hang.cluster = minute.cluster AND hang.device_uuid = minute.device_uuid
        AND hang.gi IS NOT DISTINCT FROM minute.gi AND hang.hour_us = minute.hour_us
    WHERE odd.cluster IS NULL AND minute.is_aligned
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
