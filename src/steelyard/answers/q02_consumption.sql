-- Q2: how much. Whole grains come from the supply ledger; the two cut grains of a window come from the holdings themselves.

-- name: grain
SELECT grain_us, weight_default_ppm FROM dim.parameter;

-- name: booked
SELECT
    cluster, place_kind, place_id, node, device_uuid, pod_uid, account,
    CAST(sum(amount_gpu_us) AS DECIMAL(38, 0)) AS amount_gpu_us,
    CAST(sum(CASE service WHEN 'down' THEN amount_gpu_us ELSE 0 END) AS DECIMAL(38, 0)) AS down_gpu_us,
    CAST(sum(memory_mib_us) AS DECIMAL(38, 0)) AS memory_mib_us,
    CAST(sum(cores_percent_us) AS DECIMAL(38, 0)) AS cores_percent_us,
    count(*) - count(memory_mib_us) AS memory_unknown,
    count(*) - count(cores_percent_us) AS cores_unknown
FROM ledger.supply
WHERE grain_at >= make_timestamp($from_us)
    AND grain_at < make_timestamp($to_us)
    AND pod_uid IS NOT NULL
    AND account IN ('held', 'held_unplaced', 'reserved', 'in_suspense', 'overcommitted')
GROUP BY cluster, place_kind, place_id, node, device_uuid, pod_uid, account;

-- name: estate
-- A cluster as a place has no cards of its own: what is supplied there is booked equal to what is held, and covers nothing.
SELECT cluster, account, CAST(sum(amount_gpu_us) AS DECIMAL(38, 0)) AS amount_gpu_us
FROM ledger.supply
WHERE grain_at >= make_timestamp($from_us)
    AND grain_at < make_timestamp($to_us)
    AND NOT (account = 'supply' AND place_kind = 'cluster')
GROUP BY cluster, account
ORDER BY cluster, account;

-- name: edge_holdings
SELECT
    cluster, place_kind, place_id, node, device_uuid, pod_uid, occupancy, unit_kind, unit_id,
    -- As the ledger books: a share that is not known holds its least; a figure that no card can have is not known.
    CASE
        WHEN share_ppm <= 1000000000000 THEN share_ppm
        WHEN share_at_least_ppm <= 1000000000000 THEN share_at_least_ppm
        ELSE 0
    END AS share_ppm,
    CASE WHEN memory_mib <= 100000000 THEN memory_mib END AS memory_mib,
    CASE WHEN cores_percent <= 100000000 THEN cores_percent END AS cores_percent,
    greatest(epoch_us(started_at), $from_us) AS start_us,
    least(epoch_us(coalesce(ended_at, known_to_at)), $to_us) AS end_us
FROM ledger.holding
WHERE started_at < make_timestamp($to_us)
    AND coalesce(ended_at, known_to_at) > make_timestamp($from_us)
ORDER BY cluster, place_kind, place_id, start_us, pod_uid, unit_id;

-- name: counted_cards
SELECT cluster, node, cards_count, memory_mib, from_us, to_us
FROM dim.node_capacity
ORDER BY cluster, node, from_us;

-- name: transfer_rooms
-- What is left of the cards of a node or cluster for holders whose card no source names, and what they ask of it, as the supply ledger books them.
SELECT
    site.cluster, site.place_kind, site.place_id, room.from_us, room.to_us, room.cards, room.asked_ppm, room.all_ppm, room.asked_mib, room.all_mib,
    room.asked_percent, room.all_percent
FROM dim.supply_room AS room
JOIN dim.supply_site AS site ON site.site_no = room.site_no AND site.stay_no = 1 AND site.basis = 'transfer'
WHERE room.class_no = 0 AND room.from_us < $to_us AND room.to_us > $from_us
ORDER BY site.cluster, site.place_kind, site.place_id, room.from_us;

-- name: held_time
SELECT
    cluster, pod_uid, place_id, device_uuid,
    min(node) AS node, min(namespace) AS namespace, min(pod) AS pod,
    max(least(epoch_us(coalesce(ended_at, known_to_at)), $to_us))
    - min(greatest(epoch_us(started_at), $from_us)) AS held_us,
    bool_or(share_ppm IS NULL) AS share_unknown
FROM ledger.holding
WHERE occupancy = 'held'
    AND started_at < make_timestamp($to_us)
    AND coalesce(ended_at, known_to_at) > make_timestamp($from_us)
GROUP BY cluster, pod_uid, place_id, device_uuid;

-- name: pods
SELECT
    cluster, pod_uid, namespace, pod, node, phase, tenant, workload_kind, workload_name, queue, qos, scheduler,
    requested, gpu_count, requested_gpu_milli, requested_memory_mib, requested_cores_percent,
    epoch_us(created_at) AS created_us, epoch_us(scheduled_at) AS scheduled_us, epoch_us(last_seen_at) AS last_seen_us
FROM dim.pod
ORDER BY created_at, namespace, pod, pod_uid;

-- name: devices
SELECT cluster, device_uuid, node, device_index, vendor, model, memory_mib
FROM dim.device
QUALIFY row_number() OVER (PARTITION BY cluster, device_uuid ORDER BY valid_from_at DESC NULLS LAST, node) = 1;

-- name: nodes
SELECT cluster, node, gpu_product AS model FROM dim.node;

-- name: weights
SELECT
    model, weight_ppm,
    coalesce(epoch_us(valid_from_at), $from_us) AS from_us,
    coalesce(epoch_us(valid_to_at), $to_us) AS to_us
FROM dim.model_weight
ORDER BY position;

-- name: usage
SELECT
    cluster, device_uuid, pod_uid, path, string_agg(DISTINCT used_basis, ',' ORDER BY used_basis) AS used_bases,
    CAST(sum(memory_mib_us) AS DECIMAL(38, 0)) AS memory_mib_us,
    max(memory_peak_mib) AS memory_peak_mib,
    CAST(sum(compute_upper_gpu_us) AS DECIMAL(38, 0)) AS compute_upper_gpu_us,
    CAST(sum(engine_upper_gpu_us) AS DECIMAL(38, 0)) AS engine_upper_gpu_us,
    CAST(sum(sm_gpu_us) AS DECIMAL(38, 0)) AS sm_gpu_us,
    CAST(sum(dram_gpu_us) AS DECIMAL(38, 0)) AS dram_gpu_us,
    CAST(sum(used_gpu_us) AS DECIMAL(38, 0)) AS used_gpu_us,
    CAST(sum(used_of_gpu_us) AS DECIMAL(38, 0)) AS used_of_gpu_us,
    CAST(sum(used_observed_us) AS DECIMAL(38, 0)) AS used_observed_us,
    CAST(sum(observed_us) AS DECIMAL(38, 0)) AS observed_us,
    CAST(sum(compute_observed_us) AS DECIMAL(38, 0)) AS compute_observed_us,
    CAST(sum(engine_observed_us) AS DECIMAL(38, 0)) AS engine_observed_us,
    CAST(sum(sm_observed_us) AS DECIMAL(38, 0)) AS sm_observed_us,
    CAST(sum(dram_observed_us) AS DECIMAL(38, 0)) AS dram_observed_us,
    CAST(sum(samples_count) AS DECIMAL(38, 0)) AS samples_count,
    min(unknown_reason) AS unknown_reason
FROM ledger.usage
WHERE grain_at >= make_timestamp($from_us)
    AND grain_at < make_timestamp($to_us)
GROUP BY cluster, device_uuid, pod_uid, path;
