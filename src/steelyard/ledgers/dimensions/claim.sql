-- What each holder claims of each place, with the interval in which it counts: the last step before the ledger.
-- One row per (pod, place, unit); level 0 = max(max over init containers, sum over app containers), level 1 = app containers only.
-- state: held, reserved (written, not bound), none (refused by the kubelet), unknown (no interval can be told), contradicts (it ends
-- before it starts).
WITH weighed AS (
  SELECT
    *,
    unit_kind = 'vgpu' AND share_ppm IS NULL AND device_uuid IS NOT NULL AS pooled,
    device_uuid IS NOT NULL AND unit_kind = 'gpu' OR unit_kind <> 'vgpu' AND unit_id IS NOT NULL AS single,
    share_consumer_ppm(
      CASE
        WHEN share_ppm IS NOT NULL THEN share_ppm
        WHEN unit_kind = 'gpu' THEN 1000000
        WHEN unit_kind = 'slice' AND profile IS NOT NULL
          THEN share_mig_ppm(compute_slices, compute_slices_total, memory_slices, memory_slices_total)
            * share_replica_ppm(replicas) // 1000000
        WHEN unit_kind = 'slice' THEN share_replica_ppm(replicas)
        WHEN unit_kind = 'vgpu' THEN share_vgpu_ppm(memory_mib, physical_memory_mib, cores_percent)
        ELSE share_mig_ppm(compute_slices, compute_slices_total, memory_slices, memory_slices_total)
      END,
      consumers
    ) AS unit_share_ppm,
    CASE
      WHEN share_ppm IS NOT NULL THEN 'stated'
      WHEN unit_kind = 'gpu' THEN 'whole'
      WHEN unit_kind = 'slice' THEN 'replica'
      WHEN unit_kind = 'vgpu' THEN 'dominant'
      ELSE 'mig_slices'
    END AS unit_share_basis,
    CASE WHEN unit_kind = 'vgpu' AND share_ppm IS NULL THEN coalesce(cores_percent, 0) * 10000 ELSE 0 END AS unit_at_least_ppm
  FROM dim."grant"
  WHERE standing IN ('counts', 'suspect')
),
marked AS (
  SELECT
    *,
    standing = 'suspect' AS suspect,
    CASE WHEN device_uuid IS NOT NULL THEN 'device' WHEN node IS NOT NULL THEN 'node' ELSE 'cluster' END AS place_kind,
    coalesce(device_uuid, node, cluster) AS place_id,
    CASE WHEN unit_kind = 'vgpu' THEN NULL ELSE unit_id END AS unit_key,
    CASE WHEN pooled THEN NULL ELSE profile END AS profile_key,
    CASE WHEN pooled THEN NULL ELSE gi END AS gi_key,
    CASE WHEN device_uuid IS NULL THEN resource_name END AS resource_key,
    container_kind = 'init' AS init
  FROM weighed
),
grouped AS (
  SELECT
    cluster, pod_uid, suspect, place_kind, place_id, device_uuid, unit_kind, unit_key, profile_key, gi_key, resource_key, pooled,
    min(node) AS node,
    min_by(scheme, strength) AS scheme,
    max(device_unknown_reason) AS device_unknown_reason,
    min_by(unit_share_basis, strength) AS share_basis,
    max(physical_memory_mib) AS physical_memory_mib,
    max(slots_count) AS slots_count,
    string_agg(DISTINCT container, ',' ORDER BY container) AS containers,
    string_agg(DISTINCT container, ',' ORDER BY container) FILTER (WHERE NOT init) AS app_containers,
    bool_or(single) AS single,
    count(*) FILTER (WHERE init) AS init_rows,
    count(*) FILTER (WHERE NOT init) AS app_rows,
    max(quantity) FILTER (WHERE init) AS init_quantity,
    CASE WHEN bool_or(single) THEN max(quantity) FILTER (WHERE NOT init) ELSE sum(quantity) FILTER (WHERE NOT init) END AS app_quantity,
    CASE
      WHEN count(unit_share_ppm) FILTER (WHERE init) = count(*) FILTER (WHERE init)
        THEN max(unit_share_ppm * quantity) FILTER (WHERE init)
    END AS init_share_ppm,
    CASE
      WHEN count(unit_share_ppm) FILTER (WHERE NOT init) < count(*) FILTER (WHERE NOT init) THEN NULL
      WHEN bool_or(single) THEN max(unit_share_ppm * quantity) FILTER (WHERE NOT init)
      ELSE sum(unit_share_ppm * quantity) FILTER (WHERE NOT init)
    END AS app_share_ppm,
    max(coalesce(unit_share_ppm, unit_at_least_ppm) * quantity) FILTER (WHERE init) AS init_at_least_ppm,
    CASE
      WHEN bool_or(single) THEN max(coalesce(unit_share_ppm, unit_at_least_ppm) * quantity) FILTER (WHERE NOT init)
      ELSE sum(coalesce(unit_share_ppm, unit_at_least_ppm) * quantity) FILTER (WHERE NOT init)
    END AS app_at_least_ppm,
    CASE
      WHEN count(memory_mib) FILTER (WHERE init) = count(*) FILTER (WHERE init)
        THEN max(memory_mib * quantity // greatest(1, consumers)) FILTER (WHERE init)
    END AS init_memory_mib,
    CASE
      WHEN count(memory_mib) FILTER (WHERE NOT init) < count(*) FILTER (WHERE NOT init) THEN NULL
      WHEN bool_or(single) THEN max(memory_mib * quantity // greatest(1, consumers)) FILTER (WHERE NOT init)
      ELSE sum(memory_mib * quantity // greatest(1, consumers)) FILTER (WHERE NOT init)
    END AS app_memory_mib,
    CASE
      WHEN count(cores_percent) FILTER (WHERE init) = count(*) FILTER (WHERE init)
        THEN max(cores_percent * quantity // greatest(1, consumers)) FILTER (WHERE init)
    END AS init_cores_percent,
    CASE
      WHEN count(cores_percent) FILTER (WHERE NOT init) < count(*) FILTER (WHERE NOT init) THEN NULL
      WHEN bool_or(single) THEN max(cores_percent * quantity // greatest(1, consumers)) FILTER (WHERE NOT init)
      ELSE sum(cores_percent * quantity // greatest(1, consumers)) FILTER (WHERE NOT init)
    END AS app_cores_percent,
    max(reserved_at) AS reserved_at,
    max(valid_from_at) AS valid_from_at,
    max(valid_to_at) AS valid_to_at,
    min(first_seen_at) AS grant_first_seen_at,
    max(last_seen_at) AS grant_last_seen_at,
    max(missing_at) AS missing_at
  FROM marked
  GROUP BY
    cluster, pod_uid, suspect, place_kind, place_id, device_uuid, unit_kind, unit_key, profile_key, gi_key, resource_key, pooled
),
binds AS (
  SELECT cluster, pod_uid, min(bound_at) AS bound_at, min_by(bind_basis, bound_at) AS bind_basis
  FROM dim."grant"
  WHERE standing IN ('counts', 'suspect') AND bound_at IS NOT NULL
  GROUP BY cluster, pod_uid
),
dated AS (
  SELECT
    q.*,
    p.pod_uid IS NOT NULL AS pod_known,
    coalesce(p.rejected, FALSE) AS rejected,
    coalesce(p.terminal, FALSE) AS terminal,
    p.created_at, p.first_container_at, p.init_done_at, p.last_container_end_at, p.alive_seen_at, p.terminal_seen_at,
    p.bound_seen_at, p.first_seen_at, p.last_seen_at, p.gone_by_at, p.deleted_at,
    q.scheme NOT IN ('hami', 'volcano_vgpu', 'hami_vendor') OR p.pod_uid IS NULL OR p.node IS NOT NULL
      OR p.scheduled_at IS NOT NULL AS bound,
    holding_start_at(p.created_at, p.scheduled_at, b.bound_at, p.started_at, p.first_container_at) AS stamped_at,
    CASE holding_start_basis(p.created_at, p.scheduled_at, b.bound_at, p.started_at, p.first_container_at)
      WHEN 'scheduler_bind' THEN coalesce(b.bind_basis, 'scheduler_bind')
      ELSE holding_start_basis(p.created_at, p.scheduled_at, b.bound_at, p.started_at, p.first_container_at)
    END AS stamped_basis,
    stamp_after_creation(p.created_at, q.reserved_at) AS written_at,
    m.as_of_at
  FROM grouped AS q
  CROSS JOIN dim.parameter AS m
  LEFT JOIN dim.pod_life AS p ON p.cluster = q.cluster AND p.pod_uid = q.pod_uid
  LEFT JOIN binds AS b ON b.cluster = q.cluster AND b.pod_uid = q.pod_uid
),
begun AS (
  SELECT
    *,
    CASE
      WHEN scheme IN ('declared', 'trace', 'dra') AND valid_from_at IS NOT NULL THEN valid_from_at
      WHEN NOT pod_known THEN grant_first_seen_at
      WHEN stamped_at IS NOT NULL THEN stamped_at
      ELSE bound_seen_at
    END AS start_at,
    CASE
      WHEN scheme IN ('declared', 'trace') AND valid_from_at IS NOT NULL THEN scheme
      WHEN scheme = 'dra' AND valid_from_at IS NOT NULL THEN 'claim_allocated'
      WHEN NOT pod_known THEN 'first_seen'
      WHEN stamped_at IS NOT NULL THEN stamped_basis
      WHEN bound_seen_at IS NOT NULL THEN 'first_seen'
    END AS start_basis,
    CASE
      WHEN scheme = 'declared' THEN CASE WHEN valid_to_at <= as_of_at THEN valid_to_at END
      WHEN scheme = 'trace' THEN valid_to_at
      WHEN scheme = 'dra' AND valid_to_at IS NOT NULL THEN valid_to_at
      WHEN scheme = 'dra' THEN CASE WHEN missing_at IS NOT NULL THEN grant_last_seen_at END
      WHEN pod_known THEN holding_ended_at(terminal, last_container_end_at, alive_seen_at, last_seen_at, gone_by_at)
    END AS end_at,
    CASE
      WHEN scheme = 'declared' THEN CASE WHEN valid_to_at <= as_of_at THEN 'declared' END
      WHEN scheme = 'trace' THEN CASE WHEN valid_to_at IS NOT NULL THEN 'trace' END
      WHEN scheme = 'dra' AND valid_to_at IS NOT NULL THEN 'claim_deallocated'
      WHEN scheme = 'dra' THEN CASE WHEN missing_at IS NOT NULL THEN 'vanished' END
      WHEN pod_known AND NOT terminal AND deleted_at = gone_by_at THEN 'watch_deleted'
      WHEN pod_known THEN holding_end_basis(terminal, last_container_end_at, alive_seen_at, gone_by_at)
    END AS end_basis,
    CASE
      WHEN scheme IN ('declared', 'trace') THEN NULL
      WHEN scheme = 'dra' THEN CASE WHEN valid_to_at IS NULL THEN missing_at END
      WHEN pod_known AND NOT terminal AND deleted_at = gone_by_at THEN NULL
      WHEN pod_known
        THEN holding_ended_before_at(terminal, last_container_end_at, alive_seen_at, terminal_seen_at, last_seen_at, gone_by_at)
    END AS end_before_at,
    CASE
      WHEN scheme = 'declared' THEN as_of_at
      WHEN scheme = 'dra' OR NOT pod_known THEN grant_last_seen_at
      ELSE last_seen_at
    END AS seen_to_at
  FROM dated
),
settled AS (
  SELECT
    *,
    CASE WHEN end_basis IN ('vanished', 'watch_deleted', 'phase_seen') THEN greatest(end_at, start_at) ELSE end_at END AS finish_at,
    CASE
      WHEN rejected THEN 'none'
      WHEN NOT bound THEN 'reserved'
      WHEN start_at IS NULL THEN 'unknown'
      WHEN terminal AND end_at IS NULL AND scheme NOT IN ('declared', 'trace', 'dra') THEN 'unknown'
      WHEN end_basis NOT IN ('vanished', 'watch_deleted', 'phase_seen') AND end_at < start_at THEN 'contradicts'
      WHEN start_at < TIMESTAMP '1970-01-01 00:00:00' THEN 'contradicts'
      WHEN start_at > as_of_at AND scheme = 'declared' THEN 'none'
      ELSE 'held'
    END AS state
  FROM begun
),
levelled AS (
  SELECT
    cluster, pod_uid, suspect, scheme, place_kind, place_id, node, device_uuid, device_unknown_reason,
    unit_kind, unit_key AS unit_id, profile_key AS profile, gi_key AS gi, resource_key AS resource_name, pooled, single,
    containers, app_containers, init_rows, app_rows, share_basis, physical_memory_mib, slots_count,
    CAST(greatest(coalesce(init_quantity, 0), coalesce(app_quantity, 0)) AS BIGINT) AS level0_quantity,
    CAST(coalesce(app_quantity, 0) AS BIGINT) AS level1_quantity,
    CAST(CASE WHEN init_rows = 0 OR app_rows = 0 THEN coalesce(init_share_ppm, app_share_ppm)
      WHEN init_share_ppm IS NOT NULL AND app_share_ppm IS NOT NULL THEN greatest(init_share_ppm, app_share_ppm) END AS BIGINT) AS level0_share_ppm,
    CAST(app_share_ppm AS BIGINT) AS level1_share_ppm,
    CAST(greatest(coalesce(init_at_least_ppm, 0), coalesce(app_at_least_ppm, 0)) AS BIGINT) AS level0_at_least_ppm,
    CAST(coalesce(app_at_least_ppm, 0) AS BIGINT) AS level1_at_least_ppm,
    CAST(CASE WHEN init_rows = 0 OR app_rows = 0 THEN coalesce(init_memory_mib, app_memory_mib)
      WHEN init_memory_mib IS NOT NULL AND app_memory_mib IS NOT NULL THEN greatest(init_memory_mib, app_memory_mib) END AS BIGINT) AS level0_memory_mib,
    CAST(app_memory_mib AS BIGINT) AS level1_memory_mib,
    CAST(CASE WHEN init_rows = 0 OR app_rows = 0 THEN coalesce(init_cores_percent, app_cores_percent)
      WHEN init_cores_percent IS NOT NULL AND app_cores_percent IS NOT NULL
        THEN greatest(init_cores_percent, app_cores_percent) END AS BIGINT) AS level0_cores_percent,
    CAST(app_cores_percent AS BIGINT) AS level1_cores_percent,
    state,
    CASE
      WHEN state = 'held' THEN start_at
      WHEN state = 'reserved' THEN coalesce(written_at, first_seen_at)
    END AS started_at,
    CASE
      WHEN state = 'held' THEN start_basis
      WHEN state = 'reserved' THEN CASE WHEN written_at IS NOT NULL THEN 'filter' ELSE 'first_seen' END
    END AS start_basis,
    CASE
      WHEN state = 'held' THEN finish_at
      WHEN state = 'reserved' AND (terminal OR gone_by_at IS NOT NULL)
        THEN greatest(coalesce(alive_seen_at, written_at, first_seen_at), coalesce(written_at, first_seen_at))
    END AS ended_at,
    CASE
      WHEN state = 'held' THEN end_basis
      WHEN state = 'reserved' AND (terminal OR gone_by_at IS NOT NULL) THEN 'vanished'
    END AS end_basis,
    CASE
      WHEN state = 'held' AND end_before_at IS NOT NULL THEN greatest(end_before_at, finish_at)
      WHEN state = 'reserved' AND terminal THEN terminal_seen_at
      WHEN state = 'reserved' THEN gone_by_at
    END AS ended_before_at,
    greatest(seen_to_at, CASE WHEN state = 'held' THEN start_at ELSE coalesce(written_at, first_seen_at) END) AS seen_to_at,
    CASE WHEN init_rows > 0 THEN init_done_at END AS init_done_at,
    CASE WHEN first_container_at >= start_at THEN first_container_at END AS running_at,
    CASE WHEN state = 'held' AND written_at < start_at THEN written_at END AS reserved_at,
    start_at AS claimed_from_at, end_at AS claimed_to_at
  FROM settled
)
SELECT
  *,
  CASE
    WHEN state = 'held' AND init_done_at < coalesce(ended_at, seen_to_at) AND (
      level0_quantity <> level1_quantity
      OR level0_share_ppm IS DISTINCT FROM level1_share_ppm
      OR level0_memory_mib IS DISTINCT FROM level1_memory_mib
      OR level0_cores_percent IS DISTINCT FROM level1_cores_percent
    ) THEN greatest(init_done_at, started_at)
  END AS changes_at
FROM levelled
