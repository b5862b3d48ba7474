-- What each requested pod belongs to as a demand: a Workload that has it (by its annotation, as an owner, through the pod's owner chain), the Volcano job or
-- PodGroup that it names or is owned by, else the first pod of its name and owner: retries of one owner under one name are one demand.
-- A demand has pods of its own namespace alone.
-- A pod without an owner that carries Kueue's labels belongs to the Workload of the job (or pod group) that its own labels name: the last one made before it.
-- A pod that the kubelet refused got nothing: the pod that its owner makes next, within 10 minutes (a Job's back-off is 6 at most), is its next attempt, whatever its
-- name; each pod is the next attempt of one.
WITH RECURSIVE owners AS (
  SELECT cluster, pod_uid, owner_kind, owner_name, owner_uid, annotations, workload_kind, workload_name,
    CASE WHEN contains(labels, '"kueue.x-k8s.io/') THEN labels END AS kueue_labels
  FROM dim.pod_owner
),
above AS (
  SELECT cluster, object_uid, arg_max(owner_uid, (is_controller, occurred_at)) AS owner_uid
  FROM fact.ownership
  ANTI JOIN dim.foreign_owner USING (cluster, object_uid, owner_uid, namespace)
  WHERE owner_uid IS NOT NULL AND is_controller
  GROUP BY cluster, object_uid
),
pods AS (
  SELECT
    p.cluster, p.pod_uid, p.source, p.namespace, p.pod, p.created_at, p.first_seen_at, p.rejected,
    coalesce(p.started_at, p.scheduled_at, p.created_at) AS refused_at, o.owner_kind, o.owner_name, o.owner_uid,
    a.owner_uid AS above_uid, o.workload_kind, o.workload_name, CASE WHEN o.owner_uid IS NULL THEN o.kueue_labels END AS kueue_labels,
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
    g.cluster, g.object_kind, g.object_uid, g.namespace, g.name, g.owner_uid, g.owner_kind, g.owner_name, g.created_at,
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
  SEMI JOIN pods AS p ON p.cluster = f.cluster AND p.pod_uid = f.owner_uid AND p.namespace = g.namespace
  WHERE f.owner_kind = 'Pod'
  UNION ALL
  SELECT p.cluster, p.pod_uid, g.demand_id, g.demand_kind, 3, g.created_at
  FROM pods AS p
  JOIN gangs AS g ON g.cluster = p.cluster AND g.object_kind = 'Workload' AND g.namespace = p.namespace AND g.owner_uid IN (p.owner_uid, p.pod_uid)
  UNION ALL
  SELECT p.cluster, p.pod_uid, g.demand_id, g.demand_kind, 4, g.created_at
  FROM pods AS p
  JOIN gangs AS g ON g.cluster = p.cluster AND g.object_kind = 'Workload' AND g.namespace = p.namespace AND g.owner_uid = p.above_uid
  UNION ALL
  SELECT p.cluster, p.pod_uid, g.demand_id, g.demand_kind, 5, g.created_at
  FROM pods AS p
  JOIN gangs AS g ON g.cluster = p.cluster AND g.object_kind = 'PodGroup' AND g.namespace = p.namespace AND g.name = p.pod_group
  UNION ALL
  SELECT p.cluster, p.pod_uid, g.demand_id, g.demand_kind, 6, g.created_at
  FROM pods AS p
  JOIN gangs AS g ON g.cluster = p.cluster AND g.object_kind = 'Job' AND g.namespace = p.namespace AND g.object_uid = p.owner_uid
  UNION ALL
  SELECT p.cluster, p.pod_uid, g.demand_id, g.demand_kind, 7, g.created_at
  FROM pods AS p
  JOIN gangs AS g
    ON g.cluster = p.cluster AND g.object_kind = 'Workload' AND g.namespace = p.namespace AND g.owner_kind = p.workload_kind
    AND g.owner_name = p.workload_name
  WHERE p.kueue_labels IS NOT NULL AND p.workload_kind <> 'Pod' AND coalesce(g.created_at <= p.created_at, TRUE)
  UNION ALL
  SELECT p.cluster, p.pod_uid, g.demand_id, g.demand_kind, 8, g.created_at
  FROM pods AS p
  JOIN gangs AS g
    ON g.cluster = p.cluster AND g.object_kind = 'Workload' AND g.namespace = p.namespace
    AND g.name = json_extract_string(p.kueue_labels, '$."kueue.x-k8s.io/pod-group-name"')
  WHERE p.kueue_labels IS NOT NULL
),
chosen AS (
  SELECT c.cluster, c.pod_uid, c.demand_id, c.demand_kind
  FROM claims AS c
  JOIN pods AS p ON p.cluster = c.cluster AND p.pod_uid = c.pod_uid
  QUALIFY row_number() OVER (
    PARTITION BY c.cluster, c.pod_uid
    ORDER BY coalesce(c.created_at > p.created_at, FALSE), c.strength, c.created_at DESC, c.demand_id
  ) = 1
),
owned AS (
  SELECT
    p.cluster, p.pod_uid, p.owner_uid, p.rejected, p.refused_at, coalesce(p.created_at, p.first_seen_at) AS made_at,
    coalesce(json_extract_string(o.annotations, '$."batch.kubernetes.io/job-completion-index"'), '') AS position
  FROM pods AS p
  JOIN owners AS o ON o.cluster = p.cluster AND o.pod_uid = p.pod_uid
  ANTI JOIN chosen AS c ON c.cluster = p.cluster AND c.pod_uid = p.pod_uid
  WHERE p.owner_kind <> 'StatefulSet'
    AND (p.cluster, p.owner_uid) IN (SELECT (r.cluster, r.owner_uid) FROM pods AS r WHERE r.rejected AND r.owner_uid IS NOT NULL)
),
made AS (
  SELECT *, row_number() OVER (PARTITION BY cluster, owner_uid, position ORDER BY made_at, pod_uid) AS place FROM owned
),
made_then AS (
  SELECT cluster, owner_uid, position, made_at, min(place) AS place FROM made GROUP BY cluster, owner_uid, position, made_at
),
refused AS (
  SELECT
    cluster, owner_uid, position, pod_uid, greatest(refused_at, made_at + INTERVAL 1 MICROSECOND) AS refused_at,
    row_number() OVER (PARTITION BY cluster, owner_uid, position ORDER BY greatest(refused_at, made_at + INTERVAL 1 MICROSECOND), pod_uid) AS turn
  FROM made
  WHERE rejected
),
-- The first that was made then and is not the next attempt of one refused before.
next_places AS (
  SELECT
    r.cluster, r.owner_uid, r.position, r.pod_uid, r.refused_at,
    r.turn + max(m.place - r.turn) OVER (PARTITION BY r.cluster, r.owner_uid, r.position ORDER BY r.turn) AS place
  FROM refused AS r
  ASOF JOIN made_then AS m
    ON m.cluster = r.cluster AND m.owner_uid = r.owner_uid AND m.position = r.position AND r.refused_at <= m.made_at
),
retries AS (
  SELECT m.cluster, m.pod_uid, n.pod_uid AS before_uid
  FROM next_places AS n
  JOIN made AS m
    ON m.cluster = n.cluster AND m.owner_uid = n.owner_uid AND m.position = n.position AND m.place = n.place
    AND m.made_at <= n.refused_at + INTERVAL 10 MINUTE
),
-- Up the attempts, each round twice as far.
climb AS (
  SELECT cluster, pod_uid, before_uid, 0 AS round FROM retries
  UNION ALL
  SELECT cluster, before_uid, before_uid, 0 FROM retries WHERE (cluster, before_uid) NOT IN (SELECT (cluster, pod_uid) FROM retries)
  UNION ALL
  SELECT a.cluster, a.pod_uid, b.before_uid, a.round + 1
  FROM climb AS a
  JOIN climb AS b ON b.cluster = a.cluster AND b.pod_uid = a.before_uid
  WHERE a.round < 20
),
firsts AS (SELECT cluster, pod_uid, before_uid AS first_uid FROM climb WHERE round = 20)
SELECT
  p.cluster, p.pod_uid,
  coalesce(
    c.demand_id, f.first_uid,
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
LEFT JOIN firsts AS f ON f.cluster = p.cluster AND f.pod_uid = p.pod_uid
