-- What each requested pod belongs to as a demand: a Workload that has it (by its annotation, as an owner, through the pod's owner chain), the Volcano job or
-- PodGroup that it names or is owned by, else the first pod of its name and owner: retries of one owner under one name are one demand.
WITH owners AS (
  SELECT cluster, pod_uid, owner_kind, owner_name, owner_uid, annotations
  FROM fact.owner
  QUALIFY row_number() OVER (PARTITION BY cluster, pod_uid ORDER BY occurred_at DESC, fact_id) = 1
),
above AS (
  SELECT cluster, object_uid, arg_max(owner_uid, (is_controller, occurred_at)) AS owner_uid
  FROM fact.ownership
  WHERE owner_uid IS NOT NULL AND is_controller
  GROUP BY cluster, object_uid
),
pods AS (
  SELECT
    p.cluster, p.pod_uid, p.source, p.namespace, p.pod, p.created_at, p.first_seen_at, o.owner_kind, o.owner_name, o.owner_uid,
    a.owner_uid AS above_uid,
    CASE WHEN o.annotations <> '{}' THEN json_extract_string(o.annotations, '$."kueue.x-k8s.io/workload"') END AS workload,
    CASE WHEN o.annotations <> '{}' THEN coalesce(
      json_extract_string(o.annotations, '$."scheduling.k8s.io/group-name"'),
      json_extract_string(o.annotations, '$."scheduling.volcano.sh/group-name"')
    ) END AS pod_group
  FROM dim.pod_life AS p
  LEFT JOIN owners AS o ON o.cluster = p.cluster AND o.pod_uid = p.pod_uid
  LEFT JOIN above AS a ON a.cluster = p.cluster AND a.object_uid = o.owner_uid
),
jobs AS (SELECT cluster, object_uid FROM dim.gang WHERE object_kind = 'Job'),
-- A PodGroup of a Volcano job that was seen is that job's demand.
gangs AS (
  SELECT
    g.cluster, g.object_kind, g.object_uid, g.namespace, g.name, g.owner_uid, g.created_at,
    CASE WHEN g.object_kind = 'PodGroup' THEN coalesce(j.object_uid, g.object_uid) ELSE g.object_uid END AS demand_id,
    CASE WHEN g.object_kind = 'Workload' THEN 'workload' ELSE 'pod_group' END AS demand_kind
  FROM dim.gang AS g
  LEFT JOIN jobs AS j ON j.cluster = g.cluster AND j.object_uid = g.owner_uid
),
claims AS (
  SELECT p.cluster, p.pod_uid, g.demand_id, g.demand_kind, 1 AS strength, g.created_at
  FROM pods AS p
  JOIN gangs AS g ON g.cluster = p.cluster AND g.object_kind = 'Workload' AND g.namespace = p.namespace AND g.name = p.workload
  UNION ALL
  SELECT f.cluster, f.owner_uid, g.demand_id, g.demand_kind, 2, g.created_at
  FROM fact.ownership AS f
  JOIN gangs AS g ON g.cluster = f.cluster AND g.object_uid = f.object_uid AND g.object_kind = 'Workload'
  WHERE f.owner_kind = 'Pod'
  UNION ALL
  SELECT p.cluster, p.pod_uid, g.demand_id, g.demand_kind, 3, g.created_at
  FROM pods AS p
  JOIN gangs AS g ON g.cluster = p.cluster AND g.object_kind = 'Workload' AND g.owner_uid IN (p.owner_uid, p.pod_uid)
  UNION ALL
  SELECT p.cluster, p.pod_uid, g.demand_id, g.demand_kind, 4, g.created_at
  FROM pods AS p
  JOIN gangs AS g ON g.cluster = p.cluster AND g.object_kind = 'Workload' AND g.owner_uid = p.above_uid
  UNION ALL
  SELECT p.cluster, p.pod_uid, g.demand_id, g.demand_kind, 5, g.created_at
  FROM pods AS p
  JOIN gangs AS g ON g.cluster = p.cluster AND g.object_kind = 'PodGroup' AND g.namespace = p.namespace AND g.name = p.pod_group
  UNION ALL
  SELECT p.cluster, p.pod_uid, g.demand_id, g.demand_kind, 6, g.created_at
  FROM pods AS p
  JOIN gangs AS g ON g.cluster = p.cluster AND g.object_kind = 'Job' AND g.object_uid = p.owner_uid
),
chosen AS (
  SELECT c.cluster, c.pod_uid, c.demand_id, c.demand_kind
  FROM claims AS c
  JOIN pods AS p ON p.cluster = c.cluster AND p.pod_uid = c.pod_uid
  QUALIFY row_number() OVER (
    PARTITION BY c.cluster, c.pod_uid
    ORDER BY coalesce(c.created_at > p.created_at, FALSE), c.strength, c.created_at DESC, c.demand_id
  ) = 1
)
SELECT
  p.cluster, p.pod_uid,
  coalesce(
    c.demand_id,
    CASE
      WHEN p.owner_uid IS NULL AND p.owner_name IS NULL THEN p.pod_uid
      ELSE first_value(p.pod_uid) OVER (
        PARTITION BY c.demand_id IS NULL, p.cluster, p.source, p.namespace, p.pod, p.owner_kind, p.owner_name, p.owner_uid
        ORDER BY coalesce(p.created_at, p.first_seen_at), p.pod_uid
      )
    END
  ) AS demand_id,
  coalesce(c.demand_kind, 'pod') AS demand_kind
FROM pods AS p
LEFT JOIN chosen AS c ON c.cluster = p.cluster AND c.pod_uid = p.pod_uid
