-- What a card had in use right before a pod came to hold a part of it: memory that a process left behind, or that a driver keeps, is not the pod's.
-- Joined by hours, so that a sample is not looked at once for every pod that ever had a part of its card.
SELECT held.cluster, held.device_uuid, held.pod_uid, arg_max(sample.memory_used_mib, sample.occurred_at) AS before_mib
FROM (
    SELECT
        first.*, threshold.shown_us,
        unnest(range((first.from_us - threshold.shown_us) // 3600000000, (first.from_us - 1) // 3600000000 + 1)) AS hour_no
    FROM (
        SELECT cluster, device_uuid, pod_uid, min(from_us) AS from_us
        FROM dim.excess_held
        WHERE unit_kind = 'vgpu' AND device_uuid IS NOT NULL AND occupancy <> 'reserved'
        GROUP BY cluster, device_uuid, pod_uid
    ) AS first
    CROSS JOIN dim.over_use_threshold AS threshold
) AS held
JOIN fact.device_sample AS sample
    ON sample.cluster = held.cluster AND sample.device_uuid = held.device_uuid AND epoch_us(sample.occurred_at) // 3600000000 = held.hour_no
    AND sample.gi IS NULL AND sample.memory_used_mib BETWEEN 0 AND 100000000
    AND sample.occurred_at < make_timestamp(held.from_us) AND sample.occurred_at >= make_timestamp(held.from_us - held.shown_us)
GROUP BY held.cluster, held.device_uuid, held.pod_uid
