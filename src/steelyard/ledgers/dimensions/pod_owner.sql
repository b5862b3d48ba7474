-- One row per pod whose belonging was seen: the latest word.
SELECT
  cluster, pod_uid, namespace, owner_kind, owner_name, owner_uid, workload_kind, workload_name, labels, annotations
FROM fact.owner
QUALIFY row_number() OVER (PARTITION BY cluster, pod_uid ORDER BY occurred_at DESC, fact_id) = 1
