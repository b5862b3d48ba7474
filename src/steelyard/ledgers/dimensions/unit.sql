-- One row per unit that can be held: what is known of it, the latest word of each column first.
-- ``nvidia-smi -L`` names a MIG device by UUID and number, its report by number and instances: the number joins the two, but only where a
-- card never showed another UUID or other instances under it.
-- A report names the same device by its card and instances: it is one unit, under its UUID, where those instances never had another and no grant
-- has the other name.
-- ``nvidia-smi -L`` and the kubelet name an instance by UUID alone, dcgm-exporter by number alone, beside the pod: the pod joins the two, where it has one
-- instance of the card and its rows name one number.
-- min_by passes over rows in which the value is not known.
WITH numbered AS (
  SELECT
    cluster, device_uuid, unit_index,
    max(gi) AS gi, max(ci) AS ci, max(memory_mib) AS memory_mib, max(sm_count) AS sm_count,
    max(unit_id) FILTER (WHERE unit_id LIKE 'MIG-%') AS unit_id
  FROM fact.unit
  WHERE unit_kind = 'mig' AND device_uuid IS NOT NULL AND unit_index IS NOT NULL
  GROUP BY cluster, device_uuid, unit_index
  HAVING
    count(DISTINCT unit_id) FILTER (WHERE unit_id LIKE 'MIG-%') = 1 AND count(DISTINCT gi) = 1 AND count(DISTINCT ci) <= 1
    AND count(DISTINCT memory_mib) <= 1 AND count(DISTINCT profile) <= 1
),
seen AS (
  SELECT f.* REPLACE (coalesce(f.gi, n.gi) AS gi, coalesce(f.ci, n.ci) AS ci)
  FROM fact.unit AS f
  LEFT JOIN numbered AS n ON n.cluster = f.cluster AND n.device_uuid = f.device_uuid AND n.unit_id = f.unit_id
),
named AS (
  SELECT cluster, device_uuid, gi, ci, max(unit_id) AS unit_id
  FROM seen
  WHERE unit_kind = 'mig' AND unit_id LIKE 'MIG-%' AND gi IS NOT NULL AND ci IS NOT NULL
  GROUP BY cluster, device_uuid, gi, ci
  HAVING count(DISTINCT unit_id) = 1
),
aged AS (
  SELECT
    *, row_number() OVER (PARTITION BY cluster, unit_id ORDER BY occurred_at DESC, fact_id) AS age
  FROM (
    SELECT s.* REPLACE (coalesce(n.unit_id, s.unit_id) AS unit_id)
    FROM seen AS s
    LEFT JOIN named AS n
      ON s.unit_kind = 'mig' AND s.unit_id NOT LIKE 'MIG-%'
      AND n.cluster = s.cluster AND n.device_uuid = s.device_uuid AND n.gi = s.gi AND n.ci = s.ci
      AND NOT EXISTS (SELECT 1 FROM fact."grant" AS g WHERE g.cluster = s.cluster AND g.unit_id = s.unit_id)
  ) AS s
),
granted AS (
  SELECT cluster, device_uuid, pod, max(unit_id) AS unit_id
  FROM (
    SELECT DISTINCT g.cluster, u.device_uuid, g.pod_uid AS pod, g.unit_id
    FROM fact."grant" AS g
    JOIN (
      SELECT cluster, unit_id, max(device_uuid) AS device_uuid
      FROM fact.unit
      WHERE unit_kind = 'mig' AND unit_id LIKE 'MIG-%' AND device_uuid IS NOT NULL
      GROUP BY cluster, unit_id
      HAVING count(DISTINCT device_uuid) = 1
    ) AS u ON u.cluster = g.cluster AND u.unit_id = g.unit_id
  ) AS granted_unit
  GROUP BY cluster, device_uuid, pod
  HAVING count(*) = 1
),
labelled AS (
  SELECT granted.cluster, granted.unit_id, max(label.gi) AS gi
  FROM granted
  JOIN (
    SELECT cluster, device_uuid, 'name:' || namespace || '/' || pod AS pod, gi
    FROM fact.partition_sample
    WHERE origin = 'dcgm_label' AND gi IS NOT NULL AND namespace IS NOT NULL AND pod IS NOT NULL
    UNION
    SELECT cluster, device_uuid, pod_uid, gi
    FROM fact.partition_sample
    WHERE origin = 'dcgm_label' AND gi IS NOT NULL AND pod_uid IS NOT NULL
  ) AS label ON label.cluster = granted.cluster AND label.device_uuid = granted.device_uuid AND label.pod = granted.pod
  GROUP BY granted.cluster, granted.unit_id
  HAVING count(DISTINCT label.gi) = 1
),
merged AS (
  SELECT
    cluster,
    unit_id,
    min_by(unit_kind, age) AS unit_kind,
    min_by(device_uuid, age) AS device_uuid,
    min_by(node, age) AS node,
    min_by(gi, age) AS gi,
    min_by(ci, age) AS ci,
    min_by(profile, age) AS profile,
    min_by(placement_start, age) AS placement_start,
    min_by(placement_size, age) AS placement_size,
    min_by(memory_mib, age) AS memory_mib,
    min_by(sm_count, age) AS sm_count,
    min_by(replicas, age) AS replicas,
    min(occurred_at) AS first_seen_at,
    max(occurred_at) AS last_seen_at
  FROM aged
  GROUP BY cluster, unit_id
)
SELECT
  m.cluster,
  m.unit_id,
  m.unit_kind,
  m.device_uuid,
  m.node,
  coalesce(m.gi, n.gi, l.gi) AS gi,
  coalesce(m.ci, n.ci) AS ci,
  m.profile,
  m.placement_start,
  m.placement_size,
  coalesce(m.memory_mib, n.memory_mib) AS memory_mib,
  coalesce(m.sm_count, n.sm_count) AS sm_count,
  m.replicas,
  m.first_seen_at AS valid_from_at,
  CAST(NULL AS TIMESTAMP) AS valid_to_at,
  m.first_seen_at,
  m.last_seen_at
FROM merged AS m
LEFT JOIN numbered AS n ON n.cluster = m.cluster AND n.device_uuid = m.device_uuid AND n.unit_id = m.unit_id
LEFT JOIN labelled AS l ON m.unit_kind = 'mig' AND l.cluster = m.cluster AND l.unit_id = m.unit_id
