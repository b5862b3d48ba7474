-- One row per holder: pods that a request names, and holders that only a grant knows (named by PodResources or by a claim).
WITH holders AS (
  SELECT cluster, pod_uid, TRUE AS requested FROM dim.pod_life
  UNION ALL
  SELECT DISTINCT cluster, pod_uid, FALSE FROM dim."grant" WHERE NOT pod_known
),
strangers AS (
  SELECT
    cluster, pod_uid, max(node) AS node, max(namespace) AS namespace, max(pod) AS pod,
    min(first_seen_at) AS first_seen_at, max(last_seen_at) AS last_seen_at
  FROM dim."grant"
  WHERE NOT pod_known
  GROUP BY cluster, pod_uid
),
-- The root of the chain where that was seen to its end. Else the last link of it that was seen or named, unless the form of labels and names tells
-- of a root beyond: one that is no link of the chain. Else that form alone.
roots AS (
  SELECT
    o.cluster, o.pod_uid, w.root_uid, w.root_kind, w.root_group, w.root_name,
    CASE
      WHEN w.root_basis = 'chain' THEN 'chain'
      WHEN w.root_basis = 'reference'
        AND coalesce(list_contains(w.chain, o.workload_kind || '/' || o.workload_name), TRUE) THEN 'reference'
      WHEN o.workload_kind = 'Pod' AND o.owner_kind IS NULL THEN 'chain'
      WHEN o.workload_kind IS NOT NULL THEN 'name'
    END AS basis
  FROM dim.pod_owner AS o
  LEFT JOIN dim.workload AS w
    ON w.cluster = o.cluster AND w.object_uid = o.owner_uid AND o.owner_kind NOT IN ('Node', 'Workload')
),
owners AS (
  SELECT
    o.cluster, o.pod_uid, o.namespace, o.owner_kind, o.owner_name, o.labels, o.annotations, r.basis AS workload_basis,
    CASE WHEN r.root_kind IS NULL OR r.basis = 'name' THEN o.workload_kind ELSE r.root_kind END AS workload_kind,
    CASE WHEN r.root_kind IS NULL OR r.basis = 'name' THEN o.workload_name ELSE r.root_name END AS workload_name,
    CASE WHEN r.basis = 'name' THEN NULL ELSE r.root_uid END AS workload_uid,
    CASE WHEN r.basis = 'name' THEN NULL ELSE r.root_group END AS workload_group
  FROM dim.pod_owner AS o
  JOIN roots AS r ON r.cluster = o.cluster AND r.pod_uid = o.pod_uid
),
belonging AS (
  SELECT
    h.cluster, h.pod_uid, h.requested, p.pod IS NOT NULL AS lived,
    coalesce(
      p.namespace, o.namespace, g.namespace,
      CASE WHEN h.pod_uid LIKE 'name:%/%' THEN substr(split_part(h.pod_uid, '/', 1), 6) END
    ) AS namespace,
    coalesce(p.pod, g.pod, CASE WHEN h.pod_uid LIKE 'name:%/%' THEN split_part(h.pod_uid, '/', 2) END, h.pod_uid) AS pod,
    coalesce(p.node, g.node) AS node,
    p.queue,
    o.workload_kind, o.workload_name, o.workload_uid, o.workload_group, o.workload_basis, o.owner_kind, o.owner_name,
    coalesce(o.labels, '{}') AS labels,
    coalesce(o.annotations, '{}') AS annotations,
    coalesce(p.first_seen_at, g.first_seen_at) AS first_seen_at,
    coalesce(p.last_seen_at, g.last_seen_at) AS last_seen_at
  FROM holders AS h
  LEFT JOIN dim.pod_life AS p ON p.cluster = h.cluster AND p.pod_uid = h.pod_uid
  LEFT JOIN strangers AS g ON g.cluster = h.cluster AND g.pod_uid = h.pod_uid
  LEFT JOIN owners AS o ON o.cluster = h.cluster AND o.pod_uid = h.pod_uid
),
matches AS (
  SELECT
    b.cluster, b.pod_uid, r.position, r.tenant,
    tenant_rule_value(r.attribute, r.key, b.namespace, b.labels, b.annotations, b.workload_name, b.queue) AS value,
    r.like_pattern
  FROM belonging AS b
  CROSS JOIN dim.tenant_rule AS r
),
tenants AS (
  SELECT cluster, pod_uid, min_by(coalesce(tenant, value), position) AS tenant
  FROM matches
  WHERE tenant_rule_matches(value, like_pattern)
  GROUP BY cluster, pod_uid
)
SELECT
  b.cluster, b.pod_uid, b.requested, b.namespace, b.pod, b.node,
  coalesce(p.phase, 'Unknown') AS phase,
  coalesce(t.tenant, 'unmapped') AS tenant,
  b.workload_kind, b.workload_name, b.workload_uid, b.workload_group, b.workload_basis, b.queue, p.qos, p.scheduler, p.priority, b.labels, b.annotations,
  p.created_at, p.scheduled_at, p.started_at, p.first_container_at, p.init_done_at, p.last_container_end_at, p.deletion_at,
  coalesce(p.rejected, FALSE) AS rejected,
  p.status_reason, p.gpu_count, p.requested_gpu_milli, p.requested_memory_mib, p.requested_cores_percent,
  p.unreachable_toleration_us,
  b.first_seen_at, b.last_seen_at, p.gone_by_at
FROM belonging AS b
LEFT JOIN dim.pod_life AS p ON p.cluster = b.cluster AND p.pod_uid = b.pod_uid
LEFT JOIN tenants AS t ON t.cluster = b.cluster AND t.pod_uid = b.pod_uid
