-- One row per pod whose belonging was seen: the latest word. A reference to an owner in another namespace is none, and neither is what it made of the pod.
SELECT
  latest.cluster, latest.pod_uid, latest.namespace, CASE WHEN stranger.owner_uid IS NULL THEN latest.owner_kind END AS owner_kind,
  CASE WHEN stranger.owner_uid IS NULL THEN latest.owner_name END AS owner_name,
  CASE WHEN stranger.owner_uid IS NULL THEN latest.owner_uid END AS owner_uid,
  CASE WHEN stranger.owner_uid IS NULL THEN latest.workload_kind END AS workload_kind,
  CASE WHEN stranger.owner_uid IS NULL THEN latest.workload_name END AS workload_name, latest.labels, latest.annotations
FROM (
  SELECT *
  FROM fact.owner
  QUALIFY row_number() OVER (PARTITION BY cluster, pod_uid ORDER BY occurred_at DESC, fact_id) = 1
) AS latest
LEFT JOIN dim.foreign_owner AS stranger
  ON stranger.cluster = latest.cluster AND stranger.object_uid = latest.pod_uid AND stranger.owner_uid = latest.owner_uid
  AND stranger.namespace = latest.namespace
