-- Q6: do scheduling and quota follow the rules. Conditions and groups are bound: a list per dimension (empty = all, '' = not set) and the words to group by.

-- name: grain
SELECT grain_us, epoch_us(as_of_at) AS as_of_us, wait_ceiling_us FROM dim.parameter;

-- name: demands_of_pod
SELECT DISTINCT member.demand_id
FROM dim.demand_pod AS member
JOIN dim.pod AS pod ON pod.cluster = member.cluster AND pod.pod_uid = member.pod_uid
WHERE $pod IN (pod.pod, pod.namespace || '/' || pod.pod, pod.pod_uid)
ORDER BY member.demand_id;

-- name: demands_of_node
-- Requests of which a pod was bound to the node, or holds of it.
SELECT DISTINCT member.demand_id
FROM dim.demand_pod AS member
JOIN (
  SELECT cluster, pod_uid FROM dim.pod WHERE node = $node
  UNION
  SELECT cluster, pod_uid FROM ledger.holding WHERE node = $node
) AS placed ON placed.cluster = member.cluster AND placed.pod_uid = member.pod_uid
ORDER BY member.demand_id;

-- name: demands_of_gpu
-- Requests of which a pod held the card, or an instance of it.
SELECT DISTINCT member.demand_id
FROM dim.demand_pod AS member
JOIN ledger.holding AS held ON held.cluster = member.cluster AND held.pod_uid = member.pod_uid
WHERE $gpu IN (held.device_uuid, held.unit_id)
ORDER BY member.demand_id;

-- name: demands_of_tag
-- Requests of which a pod has the label, else the annotation, with this value ('' = none of its pods has it).
SELECT member.demand_id
FROM dim.demand_pod AS member
JOIN dim.pod AS pod ON pod.cluster = member.cluster AND pod.pod_uid = member.pod_uid
GROUP BY member.demand_id
HAVING CASE
  WHEN $value = '' THEN count(json_extract_string(CASE $tag WHEN 'label' THEN pod.labels ELSE pod.annotations END, $pointer)) = 0
  ELSE coalesce(bool_or(json_extract_string(CASE $tag WHEN 'label' THEN pod.labels ELSE pod.annotations END, $pointer) = $value), FALSE)
END
ORDER BY member.demand_id;

-- name: tags_known
SELECT
  coalesce(bool_or(json_extract_string(labels, $pointer) IS NOT NULL), FALSE) AS is_label,
  coalesce(bool_or(json_extract_string(annotations, $pointer) IS NOT NULL), FALSE) AS is_annotation
FROM dim.pod;

-- name: known_values
SELECT DISTINCT value
FROM (
  SELECT
    CASE $dimension
      WHEN 'cluster' THEN cluster
      WHEN 'queue' THEN queue
      WHEN 'namespace' THEN namespace
      WHEN 'tenant' THEN tenant
      WHEN 'priority' THEN CAST(priority AS VARCHAR)
      WHEN 'workload' THEN workload_kind || '/' || workload_name
      WHEN 'person' THEN person
    END AS value
  FROM dim.demand
  UNION ALL
  SELECT CASE $dimension WHEN 'cluster' THEN cluster WHEN 'queue' THEN queue WHEN 'namespace' THEN namespace END FROM dim.quota_now
  UNION ALL
  SELECT queue FROM dim.quota_now WHERE queue_kind = 'tenant' AND $dimension = 'tenant'
  UNION ALL
  SELECT
    CASE $dimension WHEN 'cluster' THEN cluster WHEN 'namespace' THEN namespace WHEN 'tenant' THEN tenant WHEN 'person' THEN coalesce(person, "user") END
  FROM dim.refusal
) AS named
WHERE value IS NOT NULL
ORDER BY value;

-- name: wait_groups
-- As wait_figures, for each group. Requests count as in request_counts: one request is of one group, so that groups add up to the figures.
WITH cohort AS (
  SELECT
    {
      'cluster': CASE WHEN list_contains($by, 'cluster') THEN w.cluster END,
      'queue': CASE WHEN list_contains($by, 'queue') THEN w.queue END,
      'namespace': CASE WHEN list_contains($by, 'namespace') THEN w.namespace END,
      'tenant': CASE WHEN list_contains($by, 'tenant') THEN d.tenant END,
      'priority': CASE WHEN list_contains($by, 'priority') THEN d.priority END,
      'workload': CASE WHEN list_contains($by, 'workload') THEN d.workload_kind || '/' || d.workload_name END,
      'person': CASE WHEN list_contains($by, 'person') THEN d.person END
    } AS who,
    w.cluster, w.demand_id, w.started_at, w.segment, epoch_us(w.known_to_at) - epoch_us(w.started_at) AS wait_us, w.unknown_reason,
    wait_outcome(w.ended_by) AS outcome, wait_outcome(w.ended_by) = 'served' AS is_event, w.fit IS NOT DISTINCT FROM 'never_fits' AS never_fits
  FROM ledger.wait AS w
  LEFT JOIN dim.demand AS d ON $of_demands AND d.cluster = w.cluster AND d.demand_id = w.demand_id
  WHERE is_queueing(w.stage, w.demand_kind, w.unknown_reason)
    AND w.started_at >= make_timestamp($from_us::BIGINT) AND w.started_at < make_timestamp($to_us::BIGINT)
    AND is_among(w.cluster, $cluster_wanted) AND is_among(w.queue, $queue_wanted) AND is_among(w.namespace, $namespace_wanted)
    AND is_among(d.tenant, $tenant_wanted) AND is_among(d.priority, $priority_wanted) AND is_among(d.person, $person_wanted)
    AND is_among(d.workload_kind || '/' || d.workload_name, $workload_wanted) AND is_one_of(w.demand_id, $demand_id_wanted::VARCHAR[])
),
times AS (
  SELECT who, wait_us, count(*) AS waits, count(*) FILTER (WHERE is_event) AS events
  FROM cohort
  WHERE unknown_reason IS NULL
  GROUP BY ALL
),
risks AS (
  SELECT *, at_risk(waits, who, wait_us) AS at_risk FROM times
),
survivals AS (
  SELECT *, product_limit(events, at_risk, who, wait_us) AS survival FROM risks
),
quantiles AS (
  SELECT
    who, min(survival) AS survival, survival_quantile(wait_us, events, survival, 0.5) AS p50_us,
    survival_quantile(wait_us, events, survival, 0.95) AS p95_us, survival_quantile(wait_us, events, survival, 0.99) AS p99_us
  FROM survivals
  GROUP BY who
),
counts AS (
  SELECT
    who, count(*) FILTER (WHERE unknown_reason IS NULL) AS waits_count,
    count(*) FILTER (WHERE is_event AND unknown_reason IS NULL) AS events_count,
    percentile_linear(CASE WHEN is_event AND unknown_reason IS NULL THEN wait_us END, 0.5) AS naive_p50_us,
    percentile_linear(CASE WHEN is_event AND unknown_reason IS NULL THEN wait_us END, 0.95) AS naive_p95_us,
    percentile_linear(CASE WHEN is_event AND unknown_reason IS NULL THEN wait_us END, 0.99) AS naive_p99_us,
    count(*) FILTER (WHERE unknown_reason IS NOT NULL) AS not_recoverable_count,
    max(wait_us) FILTER (WHERE outcome = 'waiting' AND unknown_reason IS NULL) AS longest_waiting_us
  FROM cohort
  GROUP BY who
),
requests AS (
  SELECT
    who, arg_max(outcome, (started_at, segment)) AS outcome, arg_max(never_fits, (started_at, segment)) AS never_fits
  FROM cohort
  GROUP BY who, cluster, demand_id
),
request_counts AS (
  SELECT
    who, count(*) AS requests_count, count(*) FILTER (WHERE outcome = 'waiting') AS waiting_count,
    count(*) FILTER (WHERE outcome = 'waiting' AND never_fits) AS never_fits_count, count(*) FILTER (WHERE outcome = 'given_up') AS abandoned_count
  FROM requests
  GROUP BY who
)
SELECT
  unnest(counts.who), counts.* EXCLUDE (who), request_counts.* EXCLUDE (who), quantiles.* EXCLUDE (who)
FROM counts
JOIN request_counts ON request_counts.who = counts.who
LEFT JOIN quantiles ON quantiles.who = counts.who
ORDER BY counts.who;

-- name: request_counts
-- Requests whose wait began in the window, by what became of the last such wait: it goes on, was served, or was given up; also where its length is not known.
WITH requests AS (
  SELECT
    arg_max(wait_outcome(w.ended_by), (w.started_at, w.segment)) AS outcome,
    arg_max(w.fit IS NOT DISTINCT FROM 'never_fits', (w.started_at, w.segment)) AS never_fits
  FROM ledger.wait AS w
  LEFT JOIN dim.demand AS d ON $of_demands AND d.cluster = w.cluster AND d.demand_id = w.demand_id
  WHERE is_queueing(w.stage, w.demand_kind, w.unknown_reason)
    AND w.started_at >= make_timestamp($from_us::BIGINT) AND w.started_at < make_timestamp($to_us::BIGINT)
    AND is_among(w.cluster, $cluster_wanted) AND is_among(w.queue, $queue_wanted) AND is_among(w.namespace, $namespace_wanted)
    AND is_among(d.tenant, $tenant_wanted) AND is_among(d.priority, $priority_wanted) AND is_among(d.person, $person_wanted)
    AND is_among(d.workload_kind || '/' || d.workload_name, $workload_wanted) AND is_one_of(w.demand_id, $demand_id_wanted::VARCHAR[])
  GROUP BY w.cluster, w.demand_id
)
SELECT
  count(*) AS requests_count, count(*) FILTER (WHERE outcome = 'waiting') AS waiting_count,
  count(*) FILTER (WHERE outcome = 'waiting' AND never_fits) AS never_fits_count, count(*) FILTER (WHERE outcome = 'given_up') AS abandoned_count
FROM requests;

-- name: waits_lost
-- Why waits cannot be recovered, and how many requests name a queue of Kueue that is not known to manage them (reason NULL).
SELECT w.unknown_reason, count(*) AS waits_count
FROM ledger.wait AS w
LEFT JOIN dim.demand AS d ON $of_demands AND d.cluster = w.cluster AND d.demand_id = w.demand_id
WHERE is_queueing(w.stage, w.demand_kind, w.unknown_reason) AND w.unknown_reason IS NOT NULL
  AND w.started_at >= make_timestamp($from_us::BIGINT) AND w.started_at < make_timestamp($to_us::BIGINT)
  AND is_among(w.cluster, $cluster_wanted) AND is_among(w.queue, $queue_wanted) AND is_among(w.namespace, $namespace_wanted)
  AND is_among(d.tenant, $tenant_wanted) AND is_among(d.priority, $priority_wanted) AND is_among(d.person, $person_wanted)
  AND is_among(d.workload_kind || '/' || d.workload_name, $workload_wanted) AND is_one_of(w.demand_id, $demand_id_wanted::VARCHAR[])
GROUP BY w.unknown_reason
UNION ALL
SELECT NULL, count(*)
FROM dim.demand AS d
WHERE d.lacks_workload
  AND coalesce(least(d.created_at, d.first_seen_at) >= make_timestamp($from_us::BIGINT), TRUE)
  AND coalesce(least(d.created_at, d.first_seen_at) < make_timestamp($to_us::BIGINT), TRUE)
  AND is_among(d.cluster, $cluster_wanted) AND is_among(d.queue, $queue_wanted) AND is_among(d.namespace, $namespace_wanted)
  AND is_among(d.tenant, $tenant_wanted) AND is_among(d.priority, $priority_wanted) AND is_among(d.person, $person_wanted)
  AND is_among(d.workload_kind || '/' || d.workload_name, $workload_wanted) AND is_one_of(d.demand_id, $demand_id_wanted::VARCHAR[])
HAVING count(*) > 0
ORDER BY 2 DESC, 1;

-- name: fulfilment
-- Of the waits that began in the window for no more than the queue's own quota: how many got it within the ceiling, how many may still.
SELECT
  CASE WHEN list_contains($by, 'cluster') THEN w.cluster END AS cluster,
  CASE WHEN list_contains($by, 'queue') THEN w.queue END AS queue,
  CASE WHEN list_contains($by, 'namespace') THEN w.namespace END AS namespace,
  CASE WHEN list_contains($by, 'tenant') THEN d.tenant END AS tenant,
  CASE WHEN list_contains($by, 'priority') THEN d.priority END AS priority,
  CASE WHEN list_contains($by, 'workload') THEN d.workload_kind || '/' || d.workload_name END AS workload,
  CASE WHEN list_contains($by, 'person') THEN d.person END AS person,
  count(*) AS asked_count,
  count(*) FILTER (WHERE w.ended_by IN ('reserved', 'scheduled', 'running') AND epoch_us(w.ended_at) - epoch_us(w.started_at) <= $ceiling_us) AS granted_count,
  count(*) FILTER (WHERE w.ended_at IS NULL AND epoch_us(w.known_to_at) - epoch_us(w.started_at) <= $ceiling_us) AS undecided_count
FROM ledger.wait AS w
JOIN (
  SELECT cluster, queue, max(nominal_milli) AS nominal_milli
  FROM dim.quota_now
  WHERE queue_kind IN ('cluster_queue', 'volcano_queue')
  GROUP BY cluster, queue
) AS own ON own.cluster = w.cluster AND own.queue = w.queue AND w.gpu_milli <= own.nominal_milli
LEFT JOIN dim.demand AS d ON d.cluster = w.cluster AND d.demand_id = w.demand_id
WHERE w.stage = 'queue' AND w.unknown_reason IS NULL AND w.gpu_milli > 0
  AND w.started_at >= make_timestamp($from_us::BIGINT) AND w.started_at < make_timestamp($to_us::BIGINT)
  AND is_among(w.cluster, $cluster_wanted) AND is_among(w.queue, $queue_wanted) AND is_among(w.namespace, $namespace_wanted)
  AND is_among(d.tenant, $tenant_wanted) AND is_among(d.priority, $priority_wanted) AND is_among(d.person, $person_wanted)
  AND is_among(d.workload_kind || '/' || d.workload_name, $workload_wanted) AND is_one_of(w.demand_id, $demand_id_wanted::VARCHAR[])
GROUP BY 1, 2, 3, 4, 5, 6, 7;

-- name: doubled_objects
-- Objects that share a uid with another: of each uid one is counted.
SELECT subject, CAST(json_extract(evidence, '$.objects_count') AS BIGINT) AS objects_count
FROM ledger.finding
WHERE code = 'uid_of_several_objects'
ORDER BY subject;

-- name: asked_names
-- What the demands that are asked about are called, as findings name their subjects.
SELECT CASE d.demand_kind WHEN 'workload' THEN 'workload ' WHEN 'pod' THEN 'pod ' ELSE 'job ' END || d.namespace || '/' || d.name AS subject
FROM dim.demand AS d
WHERE is_among(d.cluster, $cluster_wanted) AND is_among(d.queue, $queue_wanted) AND is_among(d.namespace, $namespace_wanted)
  AND is_among(d.tenant, $tenant_wanted) AND is_among(d.priority, $priority_wanted) AND is_among(d.person, $person_wanted)
  AND is_among(d.workload_kind || '/' || d.workload_name, $workload_wanted) AND is_one_of(d.demand_id, $demand_id_wanted::VARCHAR[])
UNION
SELECT lower(gang.object_kind) || ' ' || gang.namespace || '/' || gang.name
FROM dim.demand AS d
JOIN dim.gang AS gang ON gang.cluster = d.cluster AND d.demand_id IN (gang.object_uid, gang.owner_uid)
WHERE d.demand_kind <> 'pod'
  AND is_among(d.cluster, $cluster_wanted) AND is_among(d.queue, $queue_wanted) AND is_among(d.namespace, $namespace_wanted)
  AND is_among(d.tenant, $tenant_wanted) AND is_among(d.priority, $priority_wanted) AND is_among(d.person, $person_wanted)
  AND is_among(d.workload_kind || '/' || d.workload_name, $workload_wanted) AND is_one_of(d.demand_id, $demand_id_wanted::VARCHAR[])
UNION
SELECT 'pod ' || pod.namespace || '/' || pod.pod
FROM dim.demand AS d
JOIN dim.demand_pod AS member ON member.cluster = d.cluster AND member.demand_id = d.demand_id
JOIN dim.pod AS pod ON pod.cluster = member.cluster AND pod.pod_uid = member.pod_uid
WHERE is_among(d.cluster, $cluster_wanted) AND is_among(d.queue, $queue_wanted) AND is_among(d.namespace, $namespace_wanted)
  AND is_among(d.tenant, $tenant_wanted) AND is_among(d.priority, $priority_wanted) AND is_among(d.person, $person_wanted)
  AND is_among(d.workload_kind || '/' || d.workload_name, $workload_wanted) AND is_one_of(d.demand_id, $demand_id_wanted::VARCHAR[]);
