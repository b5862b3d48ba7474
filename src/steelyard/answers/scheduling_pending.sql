-- Who waits at the end of the window, and what was last said to each. Conditions are bound as in q06_scheduling.sql.

-- name: pending
WITH waiting AS (
  SELECT
    w.cluster, w.demand_id, w.demand_kind, w.stage, w.queue, w.namespace, w.gpu_milli, w.cause, w.unknown_reason, epoch_us(w.started_at) AS started_us,
    least(epoch_us(w.known_to_at), $to_us::BIGINT) AS known_to_us,
    w.fit,
    f.resource AS fit_resource, f.asked_count, f.most_count, f.nodes_count, f.memory_mib AS fit_memory_mib, f.model AS fit_model, f.lacking,
    coalesce(d.name, w.demand_id) AS name, d.tenant, d.priority, d.person, d.workload_kind || '/' || d.workload_name AS workload
  FROM ledger.wait AS w
  LEFT JOIN dim.demand AS d ON d.cluster = w.cluster AND d.demand_id = w.demand_id
  LEFT JOIN dim.node_fit AS f ON f.cluster = w.cluster AND f.demand_id = w.demand_id AND w.stage = 'scheduler' AND w.ended_at IS NULL
  WHERE w.stage IN ('queue', 'gate', 'scheduler', 'admission_check', 'backoff')
    AND w.started_at < make_timestamp($to_us::BIGINT) AND coalesce(w.ended_at >= make_timestamp($to_us::BIGINT), TRUE)
    AND w.known_to_at >= make_timestamp($from_us::BIGINT)
    AND is_among(w.cluster, $cluster_wanted) AND is_among(w.queue, $queue_wanted) AND is_among(w.namespace, $namespace_wanted)
    AND is_among(d.tenant, $tenant_wanted) AND is_among(d.priority, $priority_wanted) AND is_among(d.person, $person_wanted)
    AND is_among(d.workload_kind || '/' || d.workload_name, $workload_wanted) AND is_one_of(w.demand_id, $demand_id_wanted::VARCHAR[])
  QUALIFY row_number() OVER (PARTITION BY w.cluster, w.demand_id ORDER BY w.started_at DESC, w.stage) = 1
)
SELECT *, count(*) OVER () AS rows_count
FROM waiting
ORDER BY started_us, cluster, namespace, name
LIMIT $listed_max;

-- name: pending_refused
-- Of these demands those whose object, or a pod of which, states an amount that was refused.
WITH named AS (
  SELECT cluster, demand_id, namespace || '/' || name AS name FROM dim.demand WHERE demand_id IN (SELECT unnest($demands::VARCHAR[]))
  UNION
  SELECT m.cluster, m.demand_id, p.namespace || '/' || p.pod
  FROM dim.demand_pod AS m
  JOIN dim.pod AS p ON p.cluster = m.cluster AND p.pod_uid = m.pod_uid
  WHERE m.demand_id IN (SELECT unnest($demands::VARCHAR[]))
)
SELECT DISTINCT named.cluster, named.demand_id
FROM named
JOIN fact.finding AS told ON told.cluster = named.cluster AND split_part(told.subject, ' ', 2) = named.name
WHERE told.code = 'quantity_malformed';

-- name: pending_words
-- The last refusals of each of these demands, of their pods and of their gangs' objects; those that follow an eviction are no refusals.
WITH asked AS (
  SELECT d.cluster, d.demand_id, d.namespace, d.name, CASE d.demand_kind WHEN 'workload' THEN 'Workload' WHEN 'pod' THEN 'Pod' ELSE 'PodGroup' END AS kind
  FROM dim.demand AS d
  WHERE d.demand_id IN (SELECT unnest($demands::VARCHAR[]))
),
subjects AS (
  SELECT cluster, demand_id, demand_id AS uid FROM asked
  UNION
  SELECT m.cluster, m.demand_id, m.pod_uid FROM asked AS a JOIN dim.demand_pod AS m ON m.cluster = a.cluster AND m.demand_id = a.demand_id
  UNION
  SELECT g.cluster, a.demand_id, g.object_uid FROM asked AS a JOIN dim.gang AS g ON g.cluster = a.cluster AND g.owner_uid = a.demand_id
),
names AS (
  SELECT cluster, demand_id, kind, namespace, name FROM asked
  UNION
  SELECT g.cluster, a.demand_id, g.object_kind, g.namespace, g.name FROM asked AS a JOIN dim.gang AS g ON g.cluster = a.cluster AND g.owner_uid = a.demand_id
  UNION
  SELECT a.cluster, a.demand_id, 'PodGroup', a.namespace, a.name || '-' || a.demand_id FROM asked AS a WHERE a.kind = 'PodGroup'
),
said AS (
  SELECT * EXCLUDE (fact_id)
  FROM fact.decision
  WHERE verdict IN ('not_now', 'never_fits', 'misconfigured', 'rejected', 'deactivated') AND occurred_at < make_timestamp($to_us::BIGINT)
    AND json_extract_string(details, '$.after') IS DISTINCT FROM 'evicted'
),
words AS (
  SELECT s.demand_id, w.* FROM said AS w JOIN subjects AS s ON s.cluster = w.cluster AND s.uid = w.subject_uid
  UNION
  SELECT n.demand_id, w.*
  FROM said AS w
  JOIN names AS n ON n.cluster = w.cluster AND n.kind = w.subject_kind AND n.namespace = w.namespace AND n.name = w.subject_name
  WHERE w.subject_uid IS NULL
)
SELECT
  cluster, demand_id, verdict, cause, rule, decided_by, resource, flavor, asked_milli, missing_milli, limit_milli, message, details, evidence,
  epoch_us(occurred_at) AS last_us
FROM words
QUALIFY row_number() OVER (
  PARTITION BY cluster, demand_id ORDER BY occurred_at DESC, verdict = 'never_fits' DESC, evidence, message
) <= 4
ORDER BY cluster, demand_id, last_us;

-- name: pending_queues
SELECT
  cluster, queue, arg_max(state, occurred_at) AS state, arg_max(state_message, occurred_at) AS state_message, arg_max(stop_policy, occurred_at) AS stop_policy
FROM fact.queue
WHERE queue_kind IN ('cluster_queue', 'volcano_queue') AND occurred_at < make_timestamp($to_us::BIGINT)
GROUP BY cluster, queue, queue_kind
ORDER BY cluster, queue, queue_kind;

-- name: pending_fits
SELECT cluster, demand_id, resource, asked_milli, limit_milli, fit, unread
FROM dim.quota_fit
WHERE list_contains($demands, demand_id);

-- name: pending_backoffs
-- The ends of back-offs that these demands' steps tell, and what their controllers said of back-offs by then.
SELECT s.cluster, s.demand_id, epoch_us(s."at") AS until_us, NULL AS requeue_count, TRUE AS is_step
FROM dim.step AS s
WHERE s.step = 'backoff_until' AND list_contains($demands, s.demand_id)
UNION
SELECT cluster, object_uid, epoch_us(requeue_at), requeue_count, FALSE
FROM fact.gang
WHERE list_contains($demands, object_uid) AND requeue_count IS NOT NULL AND occurred_at < make_timestamp($to_us::BIGINT)
ORDER BY ALL;
