-- One row per node. The node object tells its state; a sharing layer's row (register, handshake) only adds the handshake.
WITH aged AS (
  SELECT
    *,
    row_number() OVER (PARTITION BY cluster, node ORDER BY occurred_at DESC, fact_id) AS age,
    row_number() OVER (
      PARTITION BY cluster, node
      ORDER BY CASE WHEN source IN ('hami', 'volcano_vgpu') THEN 1 ELSE 0 END, occurred_at DESC, fact_id
    ) AS object_age
  FROM fact.node
)
SELECT
  cluster,
  node,
  min_by(node_uid, age) FILTER (WHERE node_uid IS NOT NULL) AS node_uid,
  min_by(created_at, age) FILTER (WHERE created_at IS NOT NULL) AS created_at,
  max(CASE WHEN object_age = 1 THEN ready END) AS ready,
  max(CASE WHEN object_age = 1 THEN ready_changed_at END) AS ready_changed_at,
  max(CASE WHEN object_age = 1 THEN unschedulable END) AS unschedulable,
  min_by(gpu_count, age) FILTER (WHERE gpu_count IS NOT NULL) AS gpu_count,
  min_by(gpu_product, age) FILTER (WHERE gpu_product IS NOT NULL) AS gpu_product,
  min_by(gpu_memory_mib, age) FILTER (WHERE gpu_memory_mib IS NOT NULL) AS gpu_memory_mib,
  max(CASE WHEN object_age = 1 THEN mig_strategy END) AS mig_strategy,
  max(CASE WHEN object_age = 1 THEN mig_config_state END) AS mig_config_state,
  max(CASE WHEN object_age = 1 THEN sharing_strategy END) AS sharing_strategy,
  max(CASE WHEN object_age = 1 THEN replicas END) AS replicas,
  min_by(handshake, age) FILTER (WHERE handshake IS NOT NULL) AS handshake,
  min_by(handshake_at, age) FILTER (WHERE handshake IS NOT NULL) AS handshake_at,
  max(CASE WHEN object_age = 1 THEN labels END) AS labels,
  max(CASE WHEN object_age = 1 THEN extended_resources END) AS extended_resources,
  min(occurred_at) AS first_seen_at,
  max(occurred_at) AS last_seen_at
FROM aged
GROUP BY cluster, node
