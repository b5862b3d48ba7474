-- One row per node. gone_by_at: the first complete listing of nodes without it, by a source that had named it.
-- The node object tells its state; a sharing layer's row (register, handshake) only adds the handshake.
-- min_by passes over rows in which the value is not known.
WITH aged AS (
  SELECT
    *,
    row_number() OVER (PARTITION BY cluster, node ORDER BY occurred_at DESC, fact_id) AS age,
    row_number() OVER (
      PARTITION BY cluster, node
      ORDER BY CASE WHEN source IN ('hami', 'volcano_vgpu') THEN 1 ELSE 0 END, occurred_at DESC, fact_id
    ) AS object_age
  FROM fact.node
),
-- When each source last named a node; a listing names all that exist.
named AS (
  SELECT cluster, source, node, max(seen_at) AS named_at
  FROM (
    SELECT cluster, source, node, occurred_at AS seen_at FROM fact.node
    UNION ALL
    SELECT cluster, source, object_uid, occurred_at FROM fact.sighting WHERE object_kind = 'node'
    UNION ALL
    SELECT s.cluster, s.source, f.node, s.occurred_at
    FROM fact.sighting AS s
    JOIN (SELECT DISTINCT cluster, node, node_uid FROM fact.node WHERE node_uid IS NOT NULL) AS f
      ON s.object_kind = 'node' AND f.cluster = s.cluster AND f.node_uid = s.object_uid
  ) AS sighting
  GROUP BY cluster, source, node
),
listed AS (
  SELECT cluster, source, occurred_at AS listed_at
  FROM fact.source_status
  WHERE kind = 'nodes' AND scope = 'cluster' AND complete AND status = 'ok'
    AND occurred_at <= (SELECT horizon_at FROM dim.parameter)
),
newest AS (
  SELECT cluster, source, max(listed_at) AS listed_at FROM listed GROUP BY cluster, source
),
gone AS (
  SELECT named.cluster, named.node, min(listed.listed_at) AS gone_by_at
  FROM named
  JOIN newest ON newest.cluster = named.cluster AND newest.source = named.source AND newest.listed_at > named.named_at
  JOIN listed ON listed.cluster = named.cluster AND listed.source = named.source AND listed.listed_at > named.named_at
  GROUP BY named.cluster, named.node
)
SELECT
  aged.cluster,
  aged.node,
  min_by(node_uid, age) AS node_uid,
  min_by(created_at, age) AS created_at,
  max(CASE WHEN object_age = 1 THEN ready END) AS ready,
  max(CASE WHEN object_age = 1 THEN ready_changed_at END) AS ready_changed_at,
  max(CASE WHEN object_age = 1 THEN unschedulable END) AS unschedulable,
  min_by(gpu_count, age) AS gpu_count,
  min_by(gpu_product, age) AS gpu_product,
  min_by(gpu_memory_mib, age) AS gpu_memory_mib,
  min_by(cpu_milli, age) FILTER (WHERE cpu_milli BETWEEN 0 AND 1000000000) AS cpu_milli,
  max(CASE WHEN object_age = 1 THEN mig_strategy END) AS mig_strategy,
  max(CASE WHEN object_age = 1 THEN mig_config_state END) AS mig_config_state,
  max(CASE WHEN object_age = 1 THEN sharing_strategy END) AS sharing_strategy,
  max(CASE WHEN object_age = 1 THEN replicas END) AS replicas,
  min_by(handshake, age) AS handshake,
  min_by(handshake_at, age) FILTER (WHERE handshake IS NOT NULL) AS handshake_at,
  max(CASE WHEN object_age = 1 THEN labels END) AS labels,
  max(CASE WHEN object_age = 1 THEN extended_resources END) AS extended_resources,
  min(occurred_at) AS first_seen_at,
  max(occurred_at) AS last_seen_at,
  max(gone.gone_by_at) AS gone_by_at
FROM aged
LEFT JOIN gone ON gone.cluster = aged.cluster AND gone.node = aged.node
GROUP BY aged.cluster, aged.node
