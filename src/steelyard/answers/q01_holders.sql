-- Q1: who holds what at an instant. Holdings are filtered by time first; supply is read for one grain only.

-- name: grain
SELECT grain_us FROM dim.parameter;

-- name: holders
WITH alive AS (
    SELECT
        *,
        (ended_at IS NULL AND known_to_at >= make_timestamp($at_us))
        OR ended_at > make_timestamp($at_us)
        OR (ended_before_at IS NOT NULL AND ended_at = make_timestamp($at_us)) AS certain
    FROM ledger.holding
    WHERE cluster = $cluster
        AND started_at <= make_timestamp($at_us)
        AND ($device_uuid IS NULL OR device_uuid IS NULL OR device_uuid = $device_uuid)
        AND (
            ended_at IS NULL
            OR ended_at > make_timestamp($at_us)
            OR ended_before_at > make_timestamp($at_us)
            OR (ended_before_at IS NOT NULL AND ended_at = make_timestamp($at_us))
        )
)
SELECT
    alive.cluster, alive.pod_uid, alive.namespace, alive.pod, alive.containers, alive.scheme, alive.place_kind,
    alive.place_id, alive.node, alive.device_uuid, alive.device_unknown_reason, alive.unit_kind, alive.unit_id, alive.profile,
    alive.quantity, alive.occupancy, alive.share_ppm, alive.share_at_least_ppm, alive.share_basis,
    alive.memory_mib, alive.cores_percent, alive.start_basis, alive.evidence_grade, alive.certain,
    alive.segment > 0 OR alive.end_basis IS NOT DISTINCT FROM 'init_done' AS segmented,
    replace(CAST(alive.started_at AS VARCHAR), ' ', 'T') || 'Z' AS started,
    replace(CAST(alive.ended_at AS VARCHAR), ' ', 'T') || 'Z' AS ended,
    pod.tenant, pod.workload_kind || '/' || pod.workload_name AS workload,
    CASE WHEN $all_dimensions THEN pod.workload_kind END AS workload_kind,
    CASE WHEN $all_dimensions THEN pod.workload_name END AS workload_name,
    CASE WHEN $all_dimensions THEN pod.queue END AS queue,
    CASE WHEN $all_dimensions THEN pod.qos END AS qos,
    CASE WHEN $all_dimensions THEN pod.scheduler END AS scheduler,
    CASE WHEN $all_dimensions THEN pod.phase END AS phase
FROM alive
LEFT JOIN dim.pod AS pod ON pod.cluster = alive.cluster AND pod.pod_uid = alive.pod_uid
ORDER BY alive.device_uuid, alive.node, alive.unit_id, alive.namespace, alive.pod, alive.pod_uid, alive.started_at;

-- name: segments
SELECT
    pod_uid, place_id, unit_id, occupancy,
    replace(CAST(min(started_at) AS VARCHAR), ' ', 'T') || 'Z' AS started,
    CASE
        WHEN count(ended_at) = count(*) THEN replace(CAST(max(ended_at) AS VARCHAR), ' ', 'T') || 'Z'
    END AS ended,
    arg_min(start_basis, started_at) AS start_basis
FROM ledger.holding
WHERE cluster = $cluster
    AND pod_uid IN (SELECT unnest($pod_uids))
GROUP BY pod_uid, place_id, unit_id, occupancy;

-- name: devices
SELECT
    cluster, device_uuid, node, vendor, model, memory_mib, mode, healthy, cordoned, placeable, serial,
    device_index, basis, state_reason,
    CASE WHEN state = 'lost' AND lost_at > make_timestamp($at_us) THEN 'present' ELSE state END AS state,
    coalesce(valid_from_at <= make_timestamp($at_us), TRUE)
    AND coalesce(valid_to_at >= make_timestamp($at_us), TRUE) AS valid
FROM dim.device
WHERE cluster = $cluster
    AND ($device_uuid IS NULL OR device_uuid = $device_uuid)
QUALIFY row_number() OVER (PARTITION BY device_uuid ORDER BY valid DESC, valid_from_at DESC NULLS LAST, node) = 1
ORDER BY node, device_index, device_uuid;

-- name: counted_places
SELECT place_kind, place_id, node, CAST(sum(amount_gpu_us) AS BIGINT) AS amount_gpu_us
FROM ledger.supply
WHERE cluster = $cluster
    AND grain_at = make_timestamp($grain_at_us)
    AND account = 'supply'
    AND place_kind <> 'device'
GROUP BY place_kind, place_id, node
HAVING sum(amount_gpu_us) <> 0
ORDER BY place_kind, place_id;
