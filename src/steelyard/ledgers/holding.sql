-- Who held which unit of which card, from when to when, and how much of it: one row per claim and segment (see holding.py).
WITH levels AS (
  -- Until the init containers are done; to the end where nothing changes then.
  SELECT
    c.*, 0 AS segment, CASE WHEN suspect THEN 'in_suspense' WHEN state = 'reserved' THEN 'reserved' ELSE 'held' END AS occupancy,
    level0_quantity AS quantity, level0_share_ppm AS plain_share_ppm, level0_at_least_ppm AS plain_at_least_ppm,
    level0_memory_mib AS memory_mib, level0_cores_percent AS cores_percent, containers AS names,
    started_at AS from_at,
    coalesce(changes_at, ended_at) AS to_at,
    CASE WHEN changes_at IS NOT NULL THEN 'init_done' ELSE end_basis END AS to_basis,
    CASE WHEN changes_at IS NULL THEN ended_before_at END AS to_before_at,
    start_basis AS from_basis
  FROM dim.claim AS c
  WHERE state IN ('held', 'reserved') AND (changes_at IS NULL OR changes_at > started_at)
  UNION ALL
  -- From then on, where app containers hold less.
  SELECT
    c.*, 1, CASE WHEN suspect THEN 'in_suspense' ELSE 'held' END,
    level1_quantity, level1_share_ppm, level1_at_least_ppm, level1_memory_mib, level1_cores_percent, app_containers,
    changes_at, ended_at, end_basis, ended_before_at,
    CASE WHEN changes_at > started_at THEN 'init_done' ELSE start_basis END
  FROM dim.claim AS c
  WHERE changes_at IS NOT NULL AND app_rows > 0
  UNION ALL
  -- From Filter to bind.
  SELECT
    c.*, 0, 'reserved',
    level0_quantity, level0_share_ppm, level0_at_least_ppm, level0_memory_mib, level0_cores_percent, containers,
    reserved_at, started_at, 'bound', NULL, 'filter'
  FROM dim.claim AS c
  WHERE state = 'held' AND reserved_at IS NOT NULL AND NOT suspect
),
shared AS (
  SELECT
    l.*,
    CASE WHEN pooled THEN share_vgpu_ppm(memory_mib, physical_memory_mib, cores_percent) ELSE plain_share_ppm END AS raw_share_ppm
  FROM levels AS l
),
floored AS (
  SELECT
    s.*,
    CASE
      WHEN pooled AND m.floor_by_slots AND raw_share_ppm IS NOT NULL THEN share_floored_ppm(raw_share_ppm, slots_count)
      ELSE raw_share_ppm
    END AS share_ppm
  FROM shared AS s
  CROSS JOIN dim.parameter AS m
),
agreed AS (
  SELECT DISTINCT a.cluster, a.pod_uid, a.device_uuid
  FROM dim."grant" AS a
  JOIN dim."grant" AS b
    ON b.cluster = a.cluster AND b.pod_uid = a.pod_uid AND b.source <> a.source
    AND (b.device_uuid = a.device_uuid OR (b.device_uuid IS NULL AND a.scheme = 'pod_resources' AND b.container = a.container))
  WHERE a.device_uuid IS NOT NULL AND a.standing <> 'refused' AND b.standing <> 'refused'
),
processes AS (
  SELECT p.cluster, coalesce(n.pod_uid, p.pod_uid) AS pod_uid, p.device_uuid, p.occurred_at
  FROM fact.process_sample AS p
  LEFT JOIN dim.pod_alias AS n ON n.cluster = p.cluster AND n.alias = p.pod_uid
  WHERE p.pod_uid IS NOT NULL
),
-- The pods that an exporter's rows of a card name, or what a sharing layer's monitor counts on it, by the hour.
labels AS (
  SELECT l.cluster, coalesce(n.pod_uid, l.pod_uid) AS pod_uid, l.device_uuid, l.first_at, l.last_at
  FROM (
    SELECT
      cluster, device_uuid, coalesce(pod_uid, 'name:' || namespace || '/' || pod) AS pod_uid,
      min(occurred_at) AS first_at, max(occurred_at) AS last_at
    FROM fact.partition_sample
    WHERE origin IN ('dcgm_label', 'dcgm_per_process', 'monitor') AND coalesce(pod_uid, namespace || pod) IS NOT NULL
    GROUP BY cluster, device_uuid, coalesce(pod_uid, 'name:' || namespace || '/' || pod), date_trunc('hour', occurred_at)
  ) AS l
  LEFT JOIN dim.pod_alias AS n ON n.cluster = l.cluster AND n.alias = l.pod_uid
),
labelled AS (
  SELECT DISTINCT f.cluster, f.pod_uid, f.device_uuid, f.from_at
  FROM floored AS f
  JOIN labels AS l ON l.cluster = f.cluster AND l.pod_uid = f.pod_uid AND l.device_uuid = f.device_uuid
  WHERE l.last_at >= f.from_at AND l.first_at <= coalesce(f.to_at, f.seen_to_at)
),
proven AS (
  SELECT DISTINCT f.cluster, f.pod_uid, f.device_uuid, f.from_at
  FROM floored AS f
  JOIN processes AS p ON p.cluster = f.cluster AND p.pod_uid = f.pod_uid AND p.device_uuid = f.device_uuid
  WHERE p.occurred_at >= f.from_at AND p.occurred_at <= coalesce(f.to_at, f.seen_to_at)
)
SELECT
  f.cluster,
  f.pod_uid,
  coalesce(d.namespace, '') AS namespace,
  coalesce(d.pod, f.pod_uid) AS pod,
  f.names AS containers,
  f.scheme,
  f.place_kind,
  f.place_id,
  f.node,
  f.device_uuid,
  f.device_unknown_reason,
  f.unit_kind,
  f.unit_id,
  f.profile,
  f.gi,
  CASE WHEN f.pooled THEN 1 ELSE f.quantity END AS quantity,
  f.segment,
  f.occupancy,
  f.share_ppm,
  CASE WHEN f.pooled THEN share_at_least_ppm(f.share_ppm, f.cores_percent) ELSE coalesce(f.share_ppm, f.plain_at_least_ppm) END
    AS share_at_least_ppm,
  CASE
    WHEN f.share_ppm IS NULL THEN 'unknown'
    WHEN NOT f.pooled THEN f.share_basis
    WHEN f.share_ppm > f.raw_share_ppm THEN 'slots_floor'
    WHEN f.raw_share_ppm = coalesce(f.cores_percent, 0) * 10000 THEN 'cores'
    ELSE 'memory'
  END AS share_basis,
  f.memory_mib,
  f.cores_percent,
  f.from_at AS started_at,
  CASE WHEN f.occupancy <> 'reserved' THEN f.running_at END AS running_at,
  f.to_at AS ended_at,
  coalesce(f.to_at, f.seen_to_at) AS known_to_at,
  f.to_before_at AS ended_before_at,
  f.from_basis AS start_basis,
  f.to_basis AS end_basis,
  CASE
    WHEN v.pod_uid IS NOT NULL THEN 'verified'
    WHEN a.pod_uid IS NOT NULL OR x.pod_uid IS NOT NULL THEN 'corroborated'
    ELSE 'declared'
  END AS evidence_grade
FROM floored AS f
LEFT JOIN dim.pod AS d ON d.cluster = f.cluster AND d.pod_uid = f.pod_uid
LEFT JOIN agreed AS a ON a.cluster = f.cluster AND a.pod_uid = f.pod_uid AND a.device_uuid = f.device_uuid
LEFT JOIN labelled AS x
  ON x.cluster = f.cluster AND x.pod_uid = f.pod_uid AND x.device_uuid = f.device_uuid AND x.from_at = f.from_at
LEFT JOIN proven AS v
  ON v.cluster = f.cluster AND v.pod_uid = f.pod_uid AND v.device_uuid = f.device_uuid AND v.from_at = f.from_at
