-- What is left of cards and nodes at an instant, beside the scene itself.

-- name: free_nodes
-- cpu_milli: allocatable less what bound pods asked for; NULL where the node or one of its pods does not tell.
WITH bound AS (
    SELECT
        node, sum(cpu_milli) AS cpu_milli, count(*) - count(cpu_milli) AS untold_count
    FROM dim.pod_life
    WHERE cluster = $cluster
        AND node IS NOT NULL
        AND NOT rejected
        AND coalesce(scheduled_at, started_at, bound_seen_at, created_at) <= make_timestamp($at_us)
        AND CASE
            WHEN terminal THEN coalesce(last_container_end_at, terminal_seen_at) > make_timestamp($at_us)
            ELSE coalesce(gone_by_at > make_timestamp($at_us), TRUE)
        END
    GROUP BY node
)
SELECT
    node.node, node.gpu_product AS model, coalesce(node.unschedulable, FALSE) AS is_cordoned,
    CASE
        WHEN coalesce(bound.untold_count, 0) = 0
            THEN CAST(greatest(0, node.cpu_milli - coalesce(bound.cpu_milli, 0)) AS BIGINT)
    END AS cpu_milli,
    node.cpu_milli AS whole_cpu_milli
FROM dim.node AS node
LEFT JOIN bound ON bound.node = node.node
WHERE node.cluster = $cluster
ORDER BY node.node;

-- name: free_instances
-- Where the MIG instances lie that were seen or granted by then: by unit, else by card and GPU instance.
SELECT
    unit_id, device_uuid, gi, max(profile) AS profile,
    CASE WHEN min(placement_start) = max(placement_start) THEN max(placement_start) END AS placement_start,
    CASE WHEN min(placement_size) = max(placement_size) THEN max(placement_size) END AS placement_size
FROM (
    SELECT unit_id, device_uuid, gi, profile, placement_start, placement_size
    FROM dim.unit
    WHERE cluster = $cluster
        AND unit_kind = 'mig'
        AND device_uuid IS NOT NULL
        AND first_seen_at <= make_timestamp($reach_us)
    UNION ALL
    SELECT unit_id, device_uuid, gi, profile, placement_start, placement_size
    FROM dim."grant"
    WHERE cluster = $cluster
        AND unit_kind = 'mig'
        AND device_uuid IS NOT NULL
        AND placement_start IS NOT NULL
        AND standing = 'counts'
        AND first_seen_at <= make_timestamp($reach_us)
) AS seen
GROUP BY unit_id, device_uuid, gi
ORDER BY device_uuid, gi, unit_id;

-- name: free_busy_cards
-- The state that most of a held card was in, in the grain of the instant.
SELECT device_uuid, arg_max(state, (amount_gpu_us, state)) AS state
FROM (
    SELECT device_uuid, state, sum(amount_gpu_us) AS amount_gpu_us
    FROM ledger.gpu_state
    WHERE cluster = $cluster
        AND device_uuid IS NOT NULL
        AND pod_uid IS NOT NULL
        AND grain_at >= make_timestamp($grain_from_us)
        AND grain_at < make_timestamp($grain_to_us)
    GROUP BY device_uuid, state
) AS states
GROUP BY device_uuid
ORDER BY device_uuid;

-- name: free_declared
SELECT weight, cards_count, share_ppm, cpu_milli, memory_mib, cores_percent, profile, models
FROM dim.declared_class
ORDER BY position;

-- name: free_classes
SELECT
    cards_count, gpu_milli, memory_mib, cores_percent, resource_names, model, cpu_milli,
    CAST(sum(requests_count) AS BIGINT) AS requests_count
FROM dim.request_class
WHERE asked_hour_at <= make_timestamp($at_us)
    AND asked_hour_at > make_timestamp($from_us)
GROUP BY ALL
ORDER BY ALL;
