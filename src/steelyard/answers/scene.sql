-- Who and what stood where at an instant. Holdings are filtered by time first; capacity is read off the dimensions, never off the supply ledger.

-- name: grain
SELECT grain_us FROM dim.parameter;

-- name: holders
WITH alive AS (
    SELECT
        *,
        coalesce(
            (ended_at IS NULL AND known_to_at >= make_timestamp($at_us))
            OR ended_at > make_timestamp($at_us)
            OR (ended_before_at IS NOT NULL AND ended_at = make_timestamp($at_us)),
            FALSE
        ) AS certain
    FROM ledger.holding
    WHERE cluster = $cluster
        AND (started_at <= make_timestamp($at_us) OR ended_at IS NULL)
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
    alive.gi, alive.quantity, alive.occupancy, alive.share_ppm, alive.share_at_least_ppm, alive.share_basis,
    alive.memory_mib, alive.cores_percent, alive.start_basis, alive.evidence_grade, alive.certain,
    alive.segment > 0 OR alive.end_basis IS NOT DISTINCT FROM 'init_done' AS segmented,
    replace(CAST(alive.started_at AS VARCHAR), ' ', 'T') || 'Z' AS started,
    replace(CAST(alive.ended_at AS VARCHAR), ' ', 'T') || 'Z' AS ended,
    pod.tenant, pod.workload_kind || '/' || pod.workload_name AS workload
FROM alive
LEFT JOIN dim.pod AS pod ON pod.cluster = alive.cluster AND pod.pod_uid = alive.pod_uid
-- What was seen outweighs a stamp of a clock that is ahead: a pod seen over holds nothing, one seen running holds.
WHERE (
        alive.started_at <= make_timestamp($at_us)
        OR coalesce(pod.phase = 'Running' AND pod.last_seen_at <= make_timestamp($at_us), FALSE)
    )
    AND NOT coalesce(
        pod.phase IN ('Succeeded', 'Failed') AND pod.last_seen_at <= make_timestamp($at_us) AND alive.ended_at > pod.last_seen_at,
        FALSE
    )
ORDER BY alive.device_uuid, alive.node, alive.unit_id, alive.namespace, alive.pod, alive.pod_uid, alive.started_at;

-- name: pod_dimensions
SELECT pod_uid, workload_kind, workload_name, queue, qos, scheduler, phase
FROM dim.pod
WHERE cluster = $cluster
    AND pod_uid IN (SELECT unnest($pod_uids));

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
    device_index, basis, state_reason, slots_count, schedulable_memory_mib, mig_enabled,
    CASE WHEN state = 'lost' AND lost_at > make_timestamp($at_us) THEN 'present' ELSE state END AS state,
    coalesce(valid_from_at <= make_timestamp($reach_us), TRUE)
    AND coalesce(valid_to_at >= make_timestamp($at_us), TRUE) AS valid,
    coalesce(valid_from_at > make_timestamp($at_us), FALSE) AS seen_since,
    epoch_us(valid_from_at) AS valid_from_us,
    valid_to_at IS NOT NULL AS left_later
FROM dim.device
WHERE cluster = $cluster
    AND ($device_uuid IS NULL OR device_uuid = $device_uuid)
ORDER BY node, device_index, device_uuid;

-- name: counted_places
SELECT
    node, CAST(sum(cards_count) AS BIGINT) AS cards,
    CASE WHEN count(memory_mib) = count(*) AND min(memory_mib) = max(memory_mib) THEN max(memory_mib) END AS memory_mib
FROM dim.node_capacity
WHERE cluster = $cluster
    AND seen_from_us <= $reach_us
    AND from_us <= $reach_us
    AND to_us > $reach_us
GROUP BY node
ORDER BY node;

-- name: nodes
-- down: not ready then. uncounted: it has cards, and nothing tells how many.
SELECT
    node, gpu_product AS model,
    NOT coalesce(ready, ready_changed_at IS NULL)
    AND coalesce(ready_changed_at, first_seen_at) <= make_timestamp($reach_us) AS down,
    first_seen_at <= make_timestamp($reach_us)
    AND regexp_matches(extended_resources, '"[^"/]+/[^"]*(gpu|mig-)[^"]*" *: *[1-9]')
    AND node NOT IN (SELECT node FROM dim.device WHERE cluster = $cluster AND node IS NOT NULL)
    AND node NOT IN (SELECT node FROM dim.node_capacity WHERE cluster = $cluster) AS uncounted
FROM dim.node
WHERE cluster = $cluster
ORDER BY node;

-- name: zones
SELECT cluster, node, zone, zone_type, resource, capacity_count, allocatable_count, available_count
FROM dim.node_zone
WHERE cluster = $cluster
    AND resource IS NOT NULL
    AND valid_from_at <= make_timestamp($told_us)
    AND coalesce(valid_to_at > make_timestamp($told_us), TRUE)
ORDER BY node, zone, resource;

-- name: healthy_then
SELECT device_uuid
FROM dim.device_sighting
WHERE cluster = $cluster
    AND device_uuid IN (SELECT unnest($device_uuids))
    AND healthy IS NOT NULL
    AND occurred_at <= make_timestamp($reach_us)
GROUP BY device_uuid
HAVING arg_max(healthy, occurred_at);

-- name: any_unread
-- Whether unread_claims has to be asked at all: planning it takes longer than most statements run.
SELECT 1 AS one
FROM dim."grant"
WHERE cluster = $cluster
    AND standing IN ('unreadable', 'without_grant')
UNION ALL
SELECT 1
FROM fact.finding
WHERE code = 'quantity_malformed'
LIMIT 1;

-- name: unread_claims
-- Pods that are bound and hold a card of their node, though nothing readable says which or how much.
WITH unread AS (
    SELECT cluster, pod_uid, node, device_uuid
    FROM dim."grant"
    WHERE cluster = $cluster
        AND standing IN ('unreadable', 'without_grant')
    UNION
    SELECT asking.cluster, asking.pod_uid, asking.node, NULL
    FROM dim.pod AS asking
    JOIN fact.finding AS malformed
        ON malformed.code = 'quantity_malformed' AND malformed.subject = 'pod ' || asking.namespace || '/' || asking.pod
    LEFT JOIN dim."grant" AS granted ON granted.cluster = asking.cluster AND granted.pod_uid = asking.pod_uid
    WHERE asking.cluster = $cluster
        AND asking.gpu_count IS NULL
        AND asking.node IS NOT NULL
        AND granted.pod_uid IS NULL
)
SELECT unread.cluster, pod.namespace, pod.pod, coalesce(unread.node, pod.node) AS node, unread.device_uuid
FROM unread
JOIN dim.pod AS pod ON pod.cluster = unread.cluster AND pod.pod_uid = unread.pod_uid
WHERE NOT pod.rejected
    AND coalesce(unread.node, pod.node) IS NOT NULL
    AND least(pod.scheduled_at, pod.first_seen_at) <= make_timestamp($at_us)
    AND CASE
        WHEN pod.phase IN ('Succeeded', 'Failed')
            THEN least(pod.last_container_end_at, pod.last_seen_at) > make_timestamp($at_us)
        ELSE coalesce(pod.gone_by_at > make_timestamp($at_us), TRUE)
    END
ORDER BY pod.namespace, pod.pod, unread.device_uuid;
