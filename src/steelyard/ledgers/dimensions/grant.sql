-- Every grant that is still said, resolved: names to pods, units and serials to cards, slices to their replicas.
-- ``standing`` says what becomes of it: counts, suspect, unreadable, without_grant (a claim on a shared node that no layer granted),
-- weaker (a stronger scheme speaks for the container), refused (admin access, rejected, or its pod was over by then).
WITH ranks AS (
  SELECT * FROM (
    VALUES
      ('declared', 1), ('trace', 2), ('dra', 3), ('hami', 4), ('volcano_vgpu', 5), ('hami_vendor', 6), ('shared_scheme', 7),
      ('pod_resources', 8), ('mig_plugin', 9), ('time_slicing', 10), ('mps', 11), ('device_plugin', 12)
  ) AS listed (scheme, strength)
),
named AS (
  SELECT fact_id, pod_uid
  FROM (
    SELECT
      g.fact_id, p.pod_uid,
      row_number() OVER (PARTITION BY g.fact_id ORDER BY p.seen DESC, p.created_at DESC NULLS LAST, p.pod_uid) AS choice
    FROM fact."grant" AS g
    JOIN dim.pod_alias AS p ON p.cluster = g.cluster AND p.alias = g.pod_uid
    WHERE g.pod_uid LIKE 'name:%' AND (p.created_at IS NULL OR p.created_at <= g.occurred_at)
  ) AS candidates
  WHERE choice = 1
),
resolved AS (
  SELECT g.*, coalesce(n.pod_uid, g.pod_uid) AS holder_uid
  FROM fact."grant" AS g
  LEFT JOIN named AS n ON n.fact_id = g.fact_id
),
latest AS (
  SELECT
    *,
    row_number() OVER (
      PARTITION BY cluster, holder_uid, scheme, source, natural_key ORDER BY occurred_at DESC, fact_id
    ) AS age,
    max(occurred_at) OVER (PARTITION BY cluster, holder_uid, scheme, source) AS scheme_seen_at,
    min(occurred_at) OVER (PARTITION BY cluster, holder_uid, scheme, source) AS scheme_first_seen_at,
    max(occurred_at) OVER (PARTITION BY cluster, scheme, source) AS source_seen_at
  FROM resolved
),
serials AS (
  SELECT cluster, serial, max(device_uuid) AS device_uuid
  FROM (
    SELECT cluster, serial, device_uuid FROM dim.device WHERE serial IS NOT NULL
    UNION
    SELECT cluster, serial, device_uuid FROM fact.inventory_basis WHERE serial IS NOT NULL AND device_uuid IS NOT NULL
  ) AS known
  GROUP BY cluster, serial
  HAVING count(DISTINCT device_uuid) = 1
),
carded AS (
  SELECT
    l.*,
    coalesce(l.device_uuid, u.device_uuid, z.device_uuid) AS card_uuid,
    coalesce(l.node, u.node, p.node) AS said_node,
    coalesce(l.profile, u.profile) AS said_profile,
    coalesce(l.gi, u.gi) AS said_gi,
    coalesce(l.placement_start, u.placement_start) AS said_start,
    coalesce(l.placement_size, u.placement_size) AS said_size,
    coalesce(l.replicas, u.replicas) AS said_replicas,
    coalesce(l.memory_mib, u.memory_mib) AS said_memory_mib,
    p.pod_uid IS NOT NULL AS pod_known,
    p.terminal AND p.last_container_end_at <= l.occurred_at AND l.pod_uid <> l.holder_uid AS over_by_then
  FROM latest AS l
  LEFT JOIN dim.pod_life AS p ON p.cluster = l.cluster AND p.pod_uid = l.holder_uid
  LEFT JOIN dim.unit AS u ON u.cluster = l.cluster AND u.unit_id = l.unit_id
  LEFT JOIN serials AS z ON z.cluster = l.cluster AND l.unit_id = 'serial/' || z.serial
  WHERE l.age = 1 AND (l.occurred_at = l.scheme_seen_at OR l.scheme = 'dra')
),
device_now AS (
  SELECT * FROM (
    SELECT *, row_number() OVER (PARTITION BY cluster, device_uuid ORDER BY last_seen_at DESC, node) AS age
    FROM dim.device
  ) AS aged
  WHERE age = 1
),
node_cards AS (
  SELECT
    cluster, node,
    max(CASE WHEN vendor_registered THEN 1 ELSE 0 END) = 1 AS registered,
    CASE WHEN count(DISTINCT memory_mib) = 1 AND count(*) = count(memory_mib) THEN max(memory_mib) END AS memory_mib
  FROM dim.device
  WHERE node IS NOT NULL AND valid_to_at IS NULL
  GROUP BY cluster, node
),
described AS (
  SELECT
    c.*,
    coalesce(c.said_node, d.node) AS at_node,
    d.memory_mib AS card_memory_mib,
    d.mode AS card_mode,
    d.slots_count AS card_slots_count,
    d.schedulable_memory_mib AS card_schedulable_memory_mib,
    coalesce(d.memory_mib, n.gpu_memory_mib, k.memory_mib) AS physical_memory_mib,
    coalesce(k.registered, FALSE) AS node_registered,
    n.replicas AS node_replicas,
    m.profile AS single_profile,
    m.compute_slices AS single_compute_slices, m.compute_slices_total AS single_compute_slices_total,
    m.memory_slices AS single_memory_slices, m.memory_slices_total AS single_memory_slices_total,
    f.compute_slices AS found_compute_slices, f.compute_slices_total AS found_compute_slices_total,
    f.memory_slices AS found_memory_slices, f.memory_slices_total AS found_memory_slices_total,
    coalesce(r.strength, 13) AS strength
  FROM carded AS c
  LEFT JOIN ranks AS r ON r.scheme = c.scheme
  LEFT JOIN device_now AS d ON d.cluster = c.cluster AND d.device_uuid = c.card_uuid
  LEFT JOIN dim.node AS n ON n.cluster = c.cluster AND n.node = coalesce(c.said_node, d.node)
  LEFT JOIN node_cards AS k ON k.cluster = c.cluster AND k.node = coalesce(c.said_node, d.node)
  LEFT JOIN dim.mig_profile AS m
    ON m.cluster = c.cluster AND m.node = coalesce(c.said_node, d.node) AND m.kind = 'product'
    AND c.scheme = 'device_plugin' AND c.unit_kind = 'gpu' AND c.resource_name LIKE 'nvidia.com/%'
  LEFT JOIN dim.mig_profile AS f
    ON f.cluster = c.cluster AND f.node = coalesce(c.said_node, d.node, '') AND f.kind = 'profile' AND f.profile = c.said_profile
),
typed AS (
  SELECT
    *,
    CASE
      WHEN scheme = 'device_plugin' AND unit_kind = 'gpu' AND resource_name LIKE 'nvidia.com/%' AND NOT node_registered THEN
        CASE WHEN coalesce(said_replicas, node_replicas) > 1 THEN 'slice' WHEN single_profile IS NOT NULL THEN 'mig' ELSE unit_kind END
      ELSE unit_kind
    END AS kind,
    coalesce(compute_slices, single_compute_slices, found_compute_slices) AS c_slices,
    CASE
      WHEN compute_slices IS NOT NULL THEN compute_slices_total
      WHEN single_compute_slices IS NOT NULL THEN single_compute_slices_total
      ELSE found_compute_slices_total
    END AS c_total,
    coalesce(memory_slices, single_memory_slices, found_memory_slices) AS m_slices,
    CASE
      WHEN memory_slices IS NOT NULL THEN memory_slices_total
      WHEN single_memory_slices IS NOT NULL THEN single_memory_slices_total
      ELSE found_memory_slices_total
    END AS m_total
  FROM described
),
percents AS (
  SELECT cluster, pod_uid, container, memory_percent_per_gpu
  FROM (
    SELECT *, row_number() OVER (PARTITION BY cluster, pod_uid, container ORDER BY occurred_at DESC, fact_id) AS age
    FROM fact.container
  ) AS aged
  WHERE age = 1
),
compared AS (
  SELECT
    t.*,
    coalesce(
      t.requested_memory_mib,
      CASE
        WHEN q.memory_percent_per_gpu IS NOT NULL THEN (least(q.memory_percent_per_gpu, 100000) * t.card_schedulable_memory_mib + 99) // 100
      END
    ) AS allowed_memory_mib,
    NOT plausible_grant(t.quantity, t.consumers, t.said_memory_mib, t.cores_percent, t.share_ppm)
      OR NOT coalesce(greatest(t.c_slices, t.c_total, t.m_slices, t.m_total) <= 1000, TRUE) AS implausible
  FROM typed AS t
  LEFT JOIN percents AS q ON q.cluster = t.cluster AND q.pod_uid = t.pod_uid AND q.container = t.container
),
strongest AS (
  SELECT cluster, holder_uid, container, min(strength) AS strength
  FROM typed
  WHERE NOT admin_access AND claim_state <> 'rejected' AND NOT coalesce(over_by_then, FALSE)
  GROUP BY cluster, holder_uid, container
),
claimed_units AS (
  SELECT DISTINCT cluster, holder_uid, unit_id, card_uuid
  FROM typed
  WHERE scheme = 'dra'
),
kubelet_cards AS (
  SELECT cluster, holder_uid, sum(quantity) AS quantity
  FROM typed
  WHERE scheme = 'pod_resources' AND container_kind <> 'init' AND claim_state <> 'rejected' AND NOT coalesce(over_by_then, FALSE)
  GROUP BY cluster, holder_uid
)
SELECT
  t.cluster,
  t.holder_uid AS pod_uid,
  t.pod_known,
  t.namespace,
  t.pod,
  t.container,
  t.container_kind,
  t.scheme,
  t.strength,
  t.source,
  t.resource_name,
  t.at_node AS node,
  t.card_uuid AS device_uuid,
  CASE WHEN t.card_uuid IS NULL THEN coalesce(t.device_unknown_reason, 'the grant does not name the card') END AS device_unknown_reason,
  t.kind AS unit_kind,
  t.unit_id,
  coalesce(t.said_profile, CASE WHEN t.kind IN ('mig', 'slice') THEN t.single_profile END) AS profile,
  t.said_gi AS gi,
  t.said_start AS placement_start,
  t.said_size AS placement_size,
  t.quantity,
  t.said_memory_mib AS memory_mib,
  t.cores_percent,
  t.physical_memory_mib,
  t.card_slots_count AS slots_count,
  t.c_slices AS compute_slices,
  t.c_total AS compute_slices_total,
  t.m_slices AS memory_slices,
  t.m_total AS memory_slices_total,
  CASE WHEN t.kind = 'slice' THEN coalesce(t.said_replicas, t.node_replicas) ELSE t.said_replicas END AS replicas,
  t.share_ppm,
  t.consumers,
  t.allowed_memory_mib,
  t.requested_cores_percent,
  t.larger_than_request,
  plausible_stamp(t.reserved_at, t.occurred_at) AS reserved_at,
  plausible_stamp(t.bound_at, t.occurred_at) AS bound_at,
  t.bind_basis,
  t.valid_from_at,
  t.valid_to_at,
  t.approver,
  t.claim_state,
  CASE WHEN t.implausible THEN 'a figure that no card can have' ELSE t.claim_reason END AS claim_reason,
  t.scheme_first_seen_at AS first_seen_at,
  t.occurred_at AS last_seen_at,
  CASE WHEN t.scheme = 'dra' AND t.source_seen_at > t.occurred_at THEN t.source_seen_at END AS missing_at,
  CASE
    WHEN t.admin_access OR t.claim_state = 'rejected' OR coalesce(t.over_by_then, FALSE) THEN 'refused'
    WHEN t.strength > s.strength THEN 'weaker'
    WHEN t.scheme = 'pod_resources' AND v.holder_uid IS NOT NULL THEN 'weaker'
    WHEN t.card_uuid IS NULL AND t.container_kind = 'init' AND t.strength > 8 AND k.quantity >= t.quantity THEN 'weaker'
    WHEN t.claim_state = 'unreadable' OR t.implausible THEN 'unreadable'
    WHEN t.scheme = 'device_plugin' AND t.node_registered AND t.resource_name LIKE 'nvidia.com/%' THEN 'without_grant'
    WHEN t.claim_state = 'suspect' OR t.larger_than_request THEN 'suspect'
    ELSE 'counts'
  END AS standing
FROM (
  SELECT
    *,
    scheme IN ('hami', 'volcano_vgpu') AND kind <> 'mig' AND coalesce(card_mode, '') <> 'mig'
      AND (coalesce(memory_mib > coalesce(allowed_memory_mib, card_schedulable_memory_mib), FALSE) OR coalesce(cores_percent > requested_cores_percent, FALSE))
      AS larger_than_request
  FROM compared
) AS t
LEFT JOIN strongest AS s ON s.cluster = t.cluster AND s.holder_uid = t.holder_uid AND s.container = t.container
LEFT JOIN (
  SELECT DISTINCT d.cluster, d.holder_uid, p.fact_id
  FROM claimed_units AS d
  JOIN typed AS p
    ON p.cluster = d.cluster AND p.holder_uid = d.holder_uid AND p.scheme = 'pod_resources'
    AND (p.unit_id = d.unit_id OR p.card_uuid = d.card_uuid)
) AS v ON v.fact_id = t.fact_id
LEFT JOIN kubelet_cards AS k ON k.cluster = t.cluster AND k.holder_uid = t.holder_uid
