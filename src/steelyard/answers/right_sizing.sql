-- Granted against used, per pod and card, over whole grains.

-- name: rightsize_granted
SELECT
    held.cluster, held.pod_uid, held.namespace, held.pod, held.containers, held.scheme, held.device_uuid, held.gi, held.unit_kind, held.profile,
    held.share_ppm, held.memory_mib, held.cores_percent, pod.tenant, pod.workload_kind, pod.workload_name,
    card.model, card.card_memory_mib, held.held_us
FROM (
    SELECT
        cluster, pod_uid, namespace, pod, containers, scheme, device_uuid, gi, unit_kind, profile,
        max(share_ppm) AS share_ppm, max(memory_mib) AS memory_mib, max(cores_percent) AS cores_percent,
        CAST(
            sum(
                least(epoch_us(coalesce(ended_at, known_to_at)), $to_us) - greatest(epoch_us(started_at), $from_us)
            ) AS BIGINT
        ) AS held_us
    FROM ledger.holding
    WHERE occupancy = 'held'
        AND started_at < make_timestamp($to_us)
        AND coalesce(ended_at, known_to_at) > make_timestamp($from_us)
        AND coalesce(ended_at, known_to_at) > started_at
    GROUP BY cluster, pod_uid, namespace, pod, containers, scheme, device_uuid, gi, unit_kind, profile
) AS held
LEFT JOIN dim.pod AS pod ON pod.cluster = held.cluster AND pod.pod_uid = held.pod_uid
LEFT JOIN (
    SELECT cluster, device_uuid, max(model) AS model, max(memory_mib) AS card_memory_mib
    FROM dim.device
    GROUP BY cluster, device_uuid
) AS card ON card.cluster = held.cluster AND card.device_uuid = held.device_uuid
ORDER BY held.cluster, held.namespace, held.pod, held.pod_uid, held.device_uuid, held.gi;

-- name: rightsize_used
SELECT
    cluster, pod_uid, device_uuid, gi, path,
    max(memory_p99_mib) AS memory_p99_mib, max(memory_peak_mib) AS memory_peak_mib,
    CAST(sum(observed_us) AS BIGINT) AS observed_us, CAST(sum(samples_count) AS BIGINT) AS samples_count,
    max(used_gpu_us * 1000000 // nullif(used_observed_us, 0)) AS used_mean_ppm,
    CAST(sum(used_observed_us) AS BIGINT) AS used_observed_us
FROM ledger.usage
WHERE pod_uid IS NOT NULL
    AND path IN ('exclusive', 'mig', 'soft_partition', 'process')
    AND grain_at >= make_timestamp($from_us)
    AND grain_at < make_timestamp($to_us)
GROUP BY cluster, pod_uid, device_uuid, gi, path
ORDER BY cluster, pod_uid, device_uuid, gi, path;
