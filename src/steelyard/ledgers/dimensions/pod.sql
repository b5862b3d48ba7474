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
owners AS (
  SELECT * FROM (
    SELECT *, row_number() OVER (PARTITION BY cluster, pod_uid ORDER BY occurred_at DESC, fact_id) AS age
    FROM fact.owner
  ) AS aged
  WHERE age = 1
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
    o.workload_kind, o.workload_name, o.owner_kind, o.owner_name,
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
  b.workload_kind, b.workload_name, b.queue, p.qos, p.scheduler, p.priority, b.labels, b.annotations,
  p.created_at, p.scheduled_at, p.started_at, p.first_container_at, p.init_done_at, p.last_container_end_at, p.deletion_at,
  coalesce(p.rejected, FALSE) AS rejected,
  p.status_reason, p.gpu_count, p.requested_gpu_milli, p.requested_memory_mib, p.requested_cores_percent,
  p.unreachable_toleration_us,
  b.first_seen_at, b.last_seen_at, p.gone_by_at
FROM belonging AS b
LEFT JOIN dim.pod_life AS p ON p.cluster = b.cluster AND p.pod_uid = b.pod_uid
LEFT JOIN tenants AS t ON t.cluster = b.cluster AND t.pod_uid = b.pod_uid
