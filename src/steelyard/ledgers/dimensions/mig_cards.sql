-- The model and memory of a node's cards, where all its cards agree.
SELECT
  coalesce(n.cluster, d.cluster) AS cluster,
  coalesce(n.node, d.node) AS node,
  coalesce(d.model, n.gpu_product) AS model,
  coalesce(d.memory_mib, n.gpu_memory_mib) AS memory_mib
FROM (SELECT cluster, node, gpu_product, gpu_memory_mib FROM dim.node WHERE gpu_product NOT LIKE '%-MIG-%' OR gpu_product IS NULL) AS n
FULL JOIN (
  SELECT
    cluster, node,
    CASE WHEN count(DISTINCT model) = 1 THEN max(model) END AS model,
    CASE WHEN count(DISTINCT memory_mib) = 1 AND count(memory_mib) = count(*) THEN max(memory_mib) END AS memory_mib
  FROM dim.device
  WHERE node IS NOT NULL AND valid_to_at IS NULL
  GROUP BY cluster, node
) AS d ON d.cluster = n.cluster AND d.node = n.node
ORDER BY 1, 2
