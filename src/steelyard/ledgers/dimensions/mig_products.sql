-- Nodes whose product label is a MIG profile (strategy single): each nvidia.com/gpu there is one instance.
SELECT cluster, node, gpu_product, CAST(NULL AS BIGINT) AS memory_mib
FROM dim.node
WHERE gpu_product LIKE '%-MIG-%' AND coalesce(mig_strategy, 'single') = 'single'
ORDER BY cluster, node
