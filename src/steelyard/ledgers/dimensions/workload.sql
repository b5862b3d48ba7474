-- One row per object that may stand in an owner chain, with the root of its chain: what a Deployment, a job set or a Ray job is to its pods, and what
-- a Kueue workload or a gang stands for. Objects that were only named by a reference have is_seen = FALSE and are the end of what is known.
-- A chain goes by uid within one namespace, at most 16 steps; one that does not end by then (it runs in a circle) has no root. Kueue's workloads mirror what they belong to, and a
-- node owns its static pods: neither is a step upwards. root_basis: `chain` (every step was seen, the root belongs to nobody), `reference` (the
-- root is named by the last step that was seen), NULL = no root.
WITH RECURSIVE step AS (
  SELECT
    f.* REPLACE (
      CASE WHEN s.owner_uid IS NULL THEN f.owner_uid END AS owner_uid, CASE WHEN s.owner_uid IS NULL THEN f.owner_kind END AS owner_kind,
      CASE WHEN s.owner_uid IS NULL THEN f.owner_group END AS owner_group, CASE WHEN s.owner_uid IS NULL THEN f.owner_name END AS owner_name
    )
  FROM fact.ownership AS f
  LEFT JOIN dim.foreign_owner AS s
    ON s.cluster = f.cluster AND s.object_uid = f.object_uid AND s.owner_uid = f.owner_uid AND s.namespace = f.namespace
),
own AS (
  SELECT
    cluster, object_uid, object_kind, object_group, namespace, object_name, owner_uid, owner_kind, owner_group, owner_name, is_controller,
    min(occurred_at) OVER (PARTITION BY cluster, object_uid) AS first_seen_at
  FROM step
  -- What an object once belonged to before nothing (an orphan is still that one's work), a controller before several owners.
  QUALIFY row_number() OVER (
    PARTITION BY cluster, object_uid
    ORDER BY owner_uid IS NULL AND owner_name IS NULL, NOT is_controller, occurred_at DESC, fact_id
  ) = 1
),
named_pods AS (
  SELECT cluster, owner_uid AS pod_uid FROM fact.ownership WHERE owner_uid IS NOT NULL
  UNION
  SELECT cluster, owner_uid FROM dim.pod_owner WHERE owner_uid IS NOT NULL
),
links AS (
  SELECT
    cluster, object_uid, CASE WHEN object_kind = 'Job' AND object_group = 'batch.volcano.sh' THEN 'vcjob' ELSE object_kind END AS object_kind, object_group, namespace, object_name, first_seen_at,
    CASE
      WHEN NOT is_controller OR owner_kind = 'Node' THEN NULL
      WHEN owner_kind = 'Workload' AND coalesce(owner_group, 'kueue.x-k8s.io') = 'kueue.x-k8s.io' THEN NULL
      ELSE coalesce(owner_uid, 'name:' || coalesce(namespace, '') || '/' || owner_kind || '/' || owner_name)
    END AS owner_uid,
    CASE WHEN owner_kind = 'Job' AND owner_group = 'batch.volcano.sh' THEN 'vcjob' ELSE owner_kind END AS owner_kind, owner_group, owner_name
  FROM own
  UNION ALL
  SELECT
    o.cluster, o.pod_uid, 'Pod', '', o.namespace, p.pod, p.first_seen_at,
    CASE WHEN o.owner_kind IN ('Node', 'Workload') THEN NULL ELSE o.owner_uid END,
    o.owner_kind, NULL, o.owner_name
  FROM dim.pod_owner AS o
  SEMI JOIN named_pods AS n ON n.cluster = o.cluster AND n.pod_uid = o.pod_uid
  LEFT JOIN dim.pod_life AS p ON p.cluster = o.cluster AND p.pod_uid = o.pod_uid
  WHERE NOT EXISTS (SELECT 1 FROM own WHERE own.cluster = o.cluster AND own.object_uid = o.pod_uid)
),
climb AS (
  SELECT
    cluster, object_uid, 0 AS steps_count, object_uid AS at_uid, object_kind AS at_kind, object_group AS at_group,
    namespace AS at_namespace, object_name AS at_name, TRUE AS at_seen, owner_uid, owner_kind, owner_group, owner_name,
    [object_kind || '/' || object_name] AS chain
  FROM links
  UNION ALL
  SELECT
    c.cluster, c.object_uid, c.steps_count + 1, c.owner_uid, coalesce(l.object_kind, c.owner_kind),
    coalesce(l.object_group, c.owner_group), coalesce(l.namespace, c.at_namespace), coalesce(l.object_name, c.owner_name),
    l.object_uid IS NOT NULL, l.owner_uid, l.owner_kind, l.owner_group, l.owner_name,
    list_append(c.chain, coalesce(l.object_kind, c.owner_kind) || '/' || coalesce(l.object_name, c.owner_name))
  FROM climb AS c
  LEFT JOIN links AS l ON l.cluster = c.cluster AND l.object_uid = c.owner_uid
  WHERE c.owner_uid IS NOT NULL AND c.steps_count < 16
),
tops AS (SELECT * FROM climb WHERE owner_uid IS NULL),
-- Several owners without a controller: one root, if it is the same for all of them; else the object itself stands for them.
several AS (
  SELECT
    f.cluster, f.object_uid, any_value(t.at_kind) AS at_kind, any_value(t.at_group) AS at_group,
    any_value(t.at_namespace) AS at_namespace, any_value(t.at_name) AS at_name, any_value(t.at_uid) AS at_uid,
    bool_and(t.at_seen) AS at_seen, 1 + max(t.steps_count) AS steps_count, any_value(t.chain) AS chain
  FROM step AS f
  JOIN own AS o ON o.cluster = f.cluster AND o.object_uid = f.object_uid AND NOT o.is_controller
  LEFT JOIN tops AS t ON t.cluster = f.cluster AND t.object_uid = f.owner_uid
  WHERE NOT f.is_controller
  GROUP BY f.cluster, f.object_uid
  HAVING count(DISTINCT t.at_uid) = 1 AND count(*) = count(t.at_uid)
),
seen AS (
  SELECT
    l.cluster, l.object_uid, l.object_kind, l.object_group, l.namespace, l.object_name, TRUE AS is_seen, l.first_seen_at,
    coalesce(s.at_uid, t.at_uid) AS root_uid,
    CASE WHEN s.at_uid IS NULL THEN t.at_kind ELSE s.at_kind END AS root_kind,
    CASE WHEN s.at_uid IS NULL THEN t.at_group ELSE s.at_group END AS root_group,
    CASE WHEN s.at_uid IS NULL THEN t.at_namespace ELSE s.at_namespace END AS root_namespace,
    CASE WHEN s.at_uid IS NULL THEN t.at_name ELSE s.at_name END AS root_name,
    coalesce(s.at_seen, t.at_seen) AS root_seen,
    coalesce(s.steps_count, t.steps_count) AS steps_count,
    CASE WHEN s.at_uid IS NULL THEN t.chain ELSE list_concat([l.object_kind || '/' || l.object_name], s.chain) END AS chain
  FROM links AS l
  LEFT JOIN tops AS t ON t.cluster = l.cluster AND t.object_uid = l.object_uid
  LEFT JOIN several AS s ON s.cluster = l.cluster AND s.object_uid = l.object_uid
),
-- Named, never seen: by the last step of a chain, or by a pod alone.
named AS (
  SELECT cluster, at_uid AS object_uid, at_kind AS object_kind, at_group AS object_group, at_namespace AS namespace, at_name AS object_name
  FROM tops
  WHERE NOT at_seen
  UNION ALL
  SELECT
    cluster, owner_uid,
    CASE WHEN owner_kind = 'Job' AND workload_kind = 'vcjob' AND workload_name = owner_name THEN 'vcjob' ELSE owner_kind END,
    CASE WHEN owner_kind = 'Job' AND workload_kind = 'vcjob' AND workload_name = owner_name THEN 'batch.volcano.sh' END,
    namespace, owner_name
  FROM dim.pod_owner
  WHERE owner_uid IS NOT NULL AND owner_kind NOT IN ('Node', 'Workload')
),
unseen AS (
  SELECT
    cluster, object_uid, min(object_kind) AS object_kind, min(object_group) AS object_group, min(namespace) AS namespace,
    min(object_name) AS object_name
  FROM named
  WHERE (cluster, object_uid) NOT IN (SELECT (cluster, object_uid) FROM links)
  GROUP BY cluster, object_uid
)
SELECT
  cluster, object_uid, object_kind, object_group, namespace, object_name, is_seen, first_seen_at,
  root_uid, root_kind, root_group, root_namespace, root_name,
  CASE WHEN root_uid IS NULL OR root_kind IS NULL OR root_name IS NULL THEN NULL WHEN root_seen THEN 'chain' ELSE 'reference' END AS root_basis,
  root_uid = object_uid AS is_root, steps_count, chain
FROM seen
UNION ALL
SELECT
  cluster, object_uid, object_kind, object_group, namespace, object_name, FALSE, NULL,
  object_uid, object_kind, object_group, namespace, object_name,
  CASE WHEN object_kind IS NULL OR object_name IS NULL THEN NULL ELSE 'reference' END,
  TRUE, 0, [object_kind || '/' || object_name]
FROM unseen
