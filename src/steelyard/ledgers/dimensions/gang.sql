-- One row per Workload, PodGroup and Volcano job that was seen: its latest word, and of earlier ones what the latest no longer tells.
-- evictions_count, evictions_first_count: evictions that it counts, lately and when it was first seen. whole_seen_at: the last sighting before a Volcano job
-- was ever restarted. running_count: its running tasks, as its status counts them. inactive_at: since when it is known to be deactivated.
-- word_no: the row of fact.gang that its latest word is, for joins within one posting.
-- gone_at: deletion asked for, told by the audit log, or seen by a watch; else, of what a complete listing no longer names or a watch missed when it came
-- back, its last sighting: it was given up after that.
WITH seen AS NOT MATERIALIZED (
  SELECT *, rowid AS word_no, CASE WHEN evictions = '[]' THEN 0 ELSE evictions_counted(evictions) END AS evictions_count
  FROM fact.gang
  WHERE (object_kind = 'Workload' AND object_group = 'kueue.x-k8s.io')
    OR (object_kind = 'PodGroup' AND object_group = 'scheduling.volcano.sh')
    OR (object_kind = 'Job' AND object_group = 'batch.volcano.sh')
),
-- Most are seen once, as one dump tells them: those need no grouping. By a hash, which may take in too many of them and misses none.
repeated AS (
  SELECT uid_hash FROM (SELECT hash(cluster, object_uid) AS uid_hash FROM fact.gang) AS sightings GROUP BY uid_hash HAVING count(*) > 1
),
gangs AS (
  SELECT
    cluster, object_uid, object_kind, namespace, object_name AS name, owner_kind, owner_name, owner_uid, queue, cluster_queue, priority, pods_count, min_count,
    gpu_milli, phase, active, past_run_us, created_at, deletion_at, finished_at, occurred_at AS first_seen_at, occurred_at AS last_seen_at,
    evictions_count, evictions_count AS evictions_first_count, running_count, outcome, retry_count,
    CASE WHEN coalesce(retry_count, 0) = 0 THEN occurred_at END AS whole_seen_at, CASE WHEN NOT active THEN occurred_at END AS inactive_at,
    word_no
  FROM seen
  ANTI JOIN repeated ON repeated.uid_hash = hash(cluster, object_uid)
  UNION ALL BY NAME
  SELECT
    cluster, object_uid, any_value(object_kind) AS object_kind, any_value(namespace) AS namespace, any_value(object_name) AS name,
    arg_max(owner_kind, occurred_at) AS owner_kind, arg_max(owner_name, occurred_at) AS owner_name, arg_max(owner_uid, occurred_at) AS owner_uid,
    arg_max(queue, occurred_at) AS queue, arg_max(cluster_queue, occurred_at) AS cluster_queue, arg_max(priority, occurred_at) AS priority,
    arg_max(pods_count, occurred_at) AS pods_count, arg_max(min_count, occurred_at) AS min_count, arg_max(gpu_milli, occurred_at) AS gpu_milli,
    arg_max(phase, occurred_at) AS phase, arg_max(active, occurred_at) AS active, max(past_run_us) AS past_run_us,
    min(created_at) AS created_at, min(deletion_at) AS deletion_at, min(finished_at) AS finished_at,
    min(occurred_at) AS first_seen_at, max(occurred_at) AS last_seen_at,
    max(evictions_count) AS evictions_count, arg_min(evictions_count, occurred_at) AS evictions_first_count,
    arg_max(coalesce(running_count, -1), occurred_at) AS running_count,
    arg_max(outcome, occurred_at) AS outcome, arg_max(retry_count, occurred_at) AS retry_count,
    max(occurred_at) FILTER (WHERE coalesce(retry_count, 0) = 0) AS whole_seen_at,
    min(occurred_at) FILTER (WHERE NOT active) AS inactive_at, arg_min(word_no, (-epoch_us(occurred_at), fact_id)) AS word_no
  FROM seen
  SEMI JOIN repeated ON repeated.uid_hash = hash(cluster, object_uid)
  GROUP BY cluster, object_uid
),
sighted AS (
  SELECT
    cluster, object_uid, max(occurred_at) FILTER (WHERE NOT contains(object_kind, '_gone')) AS sighted_at,
    min(occurred_at) FILTER (WHERE contains(object_kind, '_gone')) AS gone_at
  FROM fact.sighting
  WHERE object_kind IN ('workload', 'podgroup', 'job', 'workload_gone', 'podgroup_gone', 'job_gone')
  GROUP BY cluster, object_uid
),
listings AS (
  SELECT cluster, kind, scope, max(occurred_at) AS listed_at
  FROM fact.source_status
  WHERE kind IN ('workloads.kueue.x-k8s.io', 'podgroups.scheduling.volcano.sh', 'jobs.batch.volcano.sh')
    AND complete AND status = 'ok' AND observed_to_at IS NULL
  GROUP BY cluster, kind, scope
),
deletes AS (
  SELECT cluster, resource, namespace, name, occurred_at
  FROM fact.audit_event
  WHERE verb = 'delete' AND stage = 'ResponseComplete' AND response_code BETWEEN 200 AND 299 AND subresource IS NULL
    AND api_group IN ('kueue.x-k8s.io', 'scheduling.volcano.sh', 'batch.volcano.sh')
),
deleted AS (
  SELECT g.cluster, g.object_uid, min(d.occurred_at) AS deleted_at
  FROM seen AS g
  JOIN deletes AS d
    ON d.cluster = g.cluster AND d.namespace = g.namespace AND d.name = g.object_name AND d.resource = lower(g.object_kind) || 's'
    AND d.occurred_at >= g.created_at
  GROUP BY g.cluster, g.object_uid
),
watched AS (
  SELECT cluster, kind, max(observed_to_at) AS watched_to_at
  FROM fact.source_status
  WHERE kind IN ('workloads.kueue.x-k8s.io', 'podgroups.scheduling.volcano.sh', 'jobs.batch.volcano.sh')
    AND scope = 'cluster' AND complete AND status = 'ok' AND observed_to_at > observed_from_at
  GROUP BY cluster, kind
),
ends AS (
  SELECT
    g.*, least(g.deletion_at, d.deleted_at, CASE WHEN o.gone_at <= o.sighted_at THEN o.gone_at END) AS ended_at,
    greatest(g.last_seen_at, o.sighted_at) AS sighted_to_at, greatest(o.gone_at, w.listed_at, n.listed_at) AS absent_at, t.watched_to_at,
    f.owner_uid IS NULL AS is_owned_at_home
  FROM (
    SELECT
      *,
      CASE object_kind
        WHEN 'Workload' THEN 'workloads.kueue.x-k8s.io' WHEN 'PodGroup' THEN 'podgroups.scheduling.volcano.sh' ELSE 'jobs.batch.volcano.sh'
      END AS kind
    FROM gangs
  ) AS g
  LEFT JOIN sighted AS o ON o.cluster = g.cluster AND o.object_uid = g.object_uid
  LEFT JOIN deleted AS d ON d.cluster = g.cluster AND d.object_uid = g.object_uid
  LEFT JOIN listings AS w ON w.cluster = g.cluster AND w.kind = g.kind AND w.scope = 'cluster'
  LEFT JOIN listings AS n ON n.cluster = g.cluster AND n.kind = g.kind AND n.scope = 'namespace/' || g.namespace
  LEFT JOIN watched AS t ON t.cluster = g.cluster AND t.kind = g.kind
  LEFT JOIN dim.foreign_owner AS f
    ON f.cluster = g.cluster AND f.object_uid = g.object_uid AND f.owner_uid = g.owner_uid AND f.namespace = g.namespace
)
SELECT
  cluster, object_kind, object_uid, namespace, name, CASE WHEN is_owned_at_home THEN owner_kind END AS owner_kind,
  CASE WHEN is_owned_at_home THEN owner_name END AS owner_name, CASE WHEN is_owned_at_home THEN owner_uid END AS owner_uid,
  queue, cluster_queue, priority, pods_count, min_count, gpu_milli, phase, past_run_us, created_at, finished_at,
  coalesce(ended_at, CASE WHEN absent_at > sighted_to_at THEN sighted_to_at END) AS gone_at,
  first_seen_at,
  CASE WHEN ended_at IS NULL AND NOT coalesce(absent_at > sighted_to_at, FALSE) THEN greatest(sighted_to_at, watched_to_at) ELSE sighted_to_at END
    AS last_seen_at,
  greatest(evictions_count, CASE WHEN past_run_us > 0 THEN 1 ELSE 0 END) AS evictions_count,
  CASE WHEN past_run_us > 0 AND evictions_count = 0 THEN 1 ELSE evictions_first_count END AS evictions_first_count,
  whole_seen_at, last_seen_at AS last_word_at, outcome, retry_count,
  CASE WHEN running_count >= 0 THEN running_count END AS running_count,
  CASE WHEN NOT active THEN inactive_at END AS inactive_at, word_no
FROM ends
