-- One row per job of Kubernetes, JobSet, Ray or Kubeflow that was seen: how it stands or ended by its own word, whatever its pods' counters say. A job is no
-- demand: what waits is its Workload, its PodGroup or its pods (`dim.demand`). outcome NULL = it lives, does not end by itself, or does not tell.
-- retry_count: how often it was started anew, NULL = not told.
WITH told AS (
  SELECT
    g.* REPLACE (
      CASE WHEN s.owner_uid IS NULL THEN g.owner_uid END AS owner_uid, CASE WHEN s.owner_uid IS NULL THEN g.owner_kind END AS owner_kind,
      CASE WHEN s.owner_uid IS NULL THEN g.owner_name END AS owner_name
    )
  FROM fact.gang AS g
  LEFT JOIN dim.foreign_owner AS s
    ON s.cluster = g.cluster AND s.object_uid = g.object_uid AND s.owner_uid = g.owner_uid AND s.namespace = g.namespace
)
SELECT
  cluster, object_uid, any_value(object_kind) AS object_kind, any_value(object_group) AS object_group, any_value(namespace) AS namespace,
  any_value(object_name) AS name, arg_max(owner_kind, occurred_at) AS owner_kind, arg_max(owner_name, occurred_at) AS owner_name,
  arg_max(owner_uid, occurred_at) AS owner_uid, arg_max(queue, occurred_at) AS queue, arg_max(phase, occurred_at) AS phase,
  arg_max(outcome, occurred_at) AS outcome, arg_max(phase_reason, occurred_at) AS phase_reason, arg_max(active, occurred_at) AS active,
  min(created_at) AS created_at, arg_max(finished_at, occurred_at) AS finished_at, arg_max(pods_count, occurred_at) AS pods_count,
  arg_max(gpu_milli, occurred_at) AS gpu_milli, max(retry_count) AS retry_count, arg_max(retry_max, occurred_at) AS retry_max,
  min(occurred_at) AS first_seen_at, max(occurred_at) AS last_seen_at
FROM told
WHERE (object_group, object_kind) IN (
  ('batch', 'Job'), ('jobset.x-k8s.io', 'JobSet'), ('leaderworkerset.x-k8s.io', 'LeaderWorkerSet'), ('ray.io', 'RayJob'), ('ray.io', 'RayCluster'),
  ('kubeflow.org', 'PyTorchJob'), ('kubeflow.org', 'MPIJob'), ('kubeflow.org', 'TFJob'), ('kubeflow.org', 'XGBoostJob'), ('kubeflow.org', 'PaddleJob'),
  ('kubeflow.org', 'JAXJob')
)
GROUP BY cluster, object_uid
