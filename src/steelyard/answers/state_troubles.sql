-- What Q3's table of troubles takes from beside the ledger of states.

-- name: over_used
-- What pods took above their grants, or without one, by the grains of the window; annotations larger than their request by the time that they stood.
SELECT
    taken.cluster, taken.pod_uid, taken.device_uuid, taken.rule, taken.started_us, taken.gpu_us, taken.excess_mib, pod.namespace, pod.pod, pod.tenant,
    pod.workload_kind, pod.workload_name, pod.queue, device.model, device.vendor, device.device_index, coalesce(device.node, pod.node) AS node
FROM (
    SELECT
        cluster, pod_uid, device_uuid, rule, epoch_us(min(started_at)) AS started_us, CASE WHEN count(excess_gpu_us) = count(*) THEN CAST(sum(excess_gpu_us) AS BIGINT) END AS gpu_us,
        max(peak_mib) - coalesce(max(granted_mib), 0) AS excess_mib
    FROM ledger.excess
    WHERE grain_at >= make_timestamp($from_us) AND grain_at < make_timestamp($to_us)
    GROUP BY cluster, pod_uid, device_uuid, rule
    UNION ALL
    SELECT
        cluster, pod_uid, device_uuid, rule, epoch_us(started_at),
        CAST(
            CAST(excess_gpu_us AS HUGEINT) * greatest(least(epoch_us(known_to_at), $to_us) - greatest(epoch_us(started_at), $from_us), 0)
            // greatest(epoch_us(known_to_at) - epoch_us(started_at), 1) AS BIGINT
        ),
        peak_mib - granted_mib
    FROM ledger.over_use
    WHERE rule = 'tampered_grant' AND started_at < make_timestamp($to_us) AND coalesce(ended_at, known_to_at) >= make_timestamp($from_us)
) AS taken
LEFT JOIN dim.pod AS pod ON pod.cluster = taken.cluster AND pod.pod_uid = taken.pod_uid
LEFT JOIN (
    SELECT cluster, device_uuid, max(node) AS node, max(model) AS model, max(vendor) AS vendor, max(device_index) AS device_index
    FROM dim.device
    GROUP BY cluster, device_uuid
) AS device ON device.cluster = taken.cluster AND device.device_uuid = taken.device_uuid;

-- name: layer_against_facts
-- What a sharing layer claims, counts or enforces against the facts, as it was last heard.
SELECT
    found.cluster, found.code, found.subject, found.evidence, found.device_uuid, device.model, device.vendor, device.device_index,
    coalesce(device.node, json_extract_string(found.evidence, '$.node')) AS node
FROM (
    SELECT
        cluster, code, subject, evidence,
        coalesce(json_extract_string(evidence, '$.device_uuid'), CASE WHEN starts_with(subject, 'device ') THEN substr(subject, 8) END) AS device_uuid
    FROM ledger.finding
    WHERE code IN ('exporter_stale', 'ghost_pod', 'limit_not_in_force') AND occurred_at >= make_timestamp($from_us) AND occurred_at <= make_timestamp($to_us)
) AS found
LEFT JOIN (
    SELECT cluster, device_uuid, max(node) AS node, max(model) AS model, max(vendor) AS vendor, max(device_index) AS device_index
    FROM dim.device
    GROUP BY cluster, device_uuid
) AS device ON device.cluster = found.cluster AND device.device_uuid = found.device_uuid
ORDER BY found.cluster, found.code, found.subject, found.device_uuid;
