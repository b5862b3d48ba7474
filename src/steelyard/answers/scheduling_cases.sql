-- Single cases of Q6: what deciders did to whom. Conditions are bound as in q06_scheduling.sql.

-- name: evidence
SELECT kind, epoch_us(min(first_at)) AS first_us, epoch_us(max(last_at)) AS last_us
FROM dim.evidence_span
WHERE is_among(cluster, $cluster_wanted)
GROUP BY kind
ORDER BY kind;

-- name: evidence_lines
-- What was read without a listing that says so: the audit log, the queues, the controllers' own metrics.
SELECT cluster, kind, epoch_us(first_at) AS first_us, epoch_us(last_at) AS last_us
FROM dim.evidence_span
WHERE kind IN ('audit', 'queues', 'metrics')
ORDER BY cluster, kind;

-- name: preemptions
WITH asked AS (
  SELECT d.cluster, d.demand_id
  FROM dim.demand AS d
  WHERE $is_narrowed AND is_among(d.cluster, $cluster_wanted) AND is_among(d.queue, $queue_wanted) AND is_among(d.namespace, $namespace_wanted)
    AND is_among(d.tenant, $tenant_wanted) AND is_among(d.priority, $priority_wanted) AND is_among(d.person, $person_wanted)
    AND is_among(d.workload_kind || '/' || d.workload_name, $workload_wanted) AND is_one_of(d.demand_id, $demand_id_wanted::VARCHAR[])
)
SELECT
  p.cluster, epoch_us(p.preempted_at) AS at_us, p.time_basis, p.decided_by, p.cause, coalesce(v.namespace, p.victim_namespace) AS victim_namespace,
  coalesce(v.name, p.victim_name) AS victim_name, p.victim_queue, p.victim_priority, p.victim_gpu_milli, p.victim_tenant, p.pods_count,
  p.preemptor_namespace, p.preemptor_name, p.preemptor_uid, p.preemptor_queue, p.preemptor_priority, p.preemptor_tenant, p.preemptor_uids_count,
  p.evidence, p.words_count
FROM dim.preemption AS p
LEFT JOIN dim.demand AS v ON v.cluster = p.cluster AND v.demand_id = p.victim_demand_id
WHERE p.preempted_at >= make_timestamp($from_us::BIGINT) AND p.preempted_at < make_timestamp($to_us::BIGINT)
  AND (
    NOT $is_narrowed
    OR (p.cluster, p.victim_demand_id) IN (SELECT (cluster, demand_id) FROM asked)
    OR (NOT $confined AND (p.cluster, p.preemptor_demand_id) IN (SELECT (cluster, demand_id) FROM asked))
  )
ORDER BY p.preempted_at, victim_namespace, victim_name;

-- name: refusals
SELECT
  r.cluster, r.refused_by, r.verb, r.namespace, r.tenant, r.demand_key, r."user" AS asked_by, r.rule, r.quota, r.resource, r.asked_milli, r.used_milli,
  r.limit_milli, r.message, epoch_us(r.first_at) AS first_us, epoch_us(r.last_at) AS last_us, r.times, r.is_demand, r.demand_id IS NULL AS is_unborn,
  r.refused_by = 'quota' AND coalesce(counts_accelerators(r.resource), FALSE) AS is_of_cards
FROM dim.refusal AS r
WHERE r.last_at >= make_timestamp($from_us::BIGINT) AND r.first_at < make_timestamp($to_us::BIGINT)
  AND is_among(r.cluster, $cluster_wanted) AND is_among(r.queue, $queue_wanted) AND is_among(r.namespace, $namespace_wanted)
  AND is_among(r.tenant, $tenant_wanted) AND is_among(r.priority, $priority_wanted) AND is_among(coalesce(r.person, r."user"), $person_wanted)
  AND is_among(r.workload, $workload_wanted) AND is_one_of(r.demand_id, $demand_id_wanted::VARCHAR[])
ORDER BY r.first_at, r.namespace, r.demand_key, r.refused_by;

-- name: evictions
SELECT
  CASE WHEN list_contains($by, 'cluster') THEN d.cluster END AS cluster,
  CASE WHEN list_contains($by, 'queue') THEN d.queue END AS queue,
  CASE WHEN list_contains($by, 'namespace') THEN d.namespace END AS namespace,
  CASE WHEN list_contains($by, 'tenant') THEN d.tenant END AS tenant,
  CASE WHEN list_contains($by, 'priority') THEN d.priority END AS priority,
  CASE WHEN list_contains($by, 'workload') THEN d.workload_kind || '/' || d.workload_name END AS workload,
  CASE WHEN list_contains($by, 'person') THEN d.person END AS person,
  e.reason, e.cause, count(DISTINCT (e.cluster, e.demand_id)) AS requests_count, CAST(sum(e.evictions_count) AS BIGINT) AS evictions_count,
  string_agg(DISTINCT e.basis, ', ' ORDER BY e.basis) AS basis, epoch_us(max(e.last_at)) AS last_us
FROM dim.eviction AS e
JOIN dim.demand AS d ON d.cluster = e.cluster AND d.demand_id = e.demand_id
WHERE coalesce(e.last_at >= make_timestamp($from_us::BIGINT), TRUE)
  AND coalesce(least(d.created_at, d.first_seen_at) < make_timestamp($to_us::BIGINT), TRUE)
  AND is_among(d.cluster, $cluster_wanted) AND is_among(d.queue, $queue_wanted) AND is_among(d.namespace, $namespace_wanted)
  AND is_among(d.tenant, $tenant_wanted) AND is_among(d.priority, $priority_wanted) AND is_among(d.person, $person_wanted)
  AND is_among(d.workload_kind || '/' || d.workload_name, $workload_wanted) AND is_one_of(d.demand_id, $demand_id_wanted::VARCHAR[])
GROUP BY 1, 2, 3, 4, 5, 6, 7, e.reason, e.cause
ORDER BY ALL;

-- name: outcomes
-- Who ended in the window, by how, and who lives: waits, is a gang of which fewer run than it needs (degraded), or else runs or stands idle (living).
-- not_told: it ended, and nobody says how.
SELECT
  CASE WHEN list_contains($by, 'cluster') THEN d.cluster END AS cluster,
  CASE WHEN list_contains($by, 'queue') THEN d.queue END AS queue,
  CASE WHEN list_contains($by, 'namespace') THEN d.namespace END AS namespace,
  CASE WHEN list_contains($by, 'tenant') THEN d.tenant END AS tenant,
  CASE WHEN list_contains($by, 'priority') THEN d.priority END AS priority,
  CASE WHEN list_contains($by, 'workload') THEN d.workload_kind || '/' || d.workload_name END AS workload,
  CASE WHEN list_contains($by, 'person') THEN d.person END AS person,
  d.scheduler,
  count(*) FILTER (WHERE o.outcome IN ('succeeded', 'succeeded_with_failed_pods')) AS succeeded_count,
  count(*) FILTER (WHERE o.outcome = 'failed') AS failed_count,
  count(*) FILTER (WHERE o.outcome = 'preempted') AS preempted_count,
  count(*) FILTER (WHERE o.outcome IN ('replaced', 'out_of_sync', 'owner_not_found')) AS excluded_count,
  count(*) FILTER (WHERE o.outcome IS NOT NULL AND o.outcome NOT IN (
    'succeeded', 'succeeded_with_failed_pods', 'failed', 'preempted', 'replaced', 'out_of_sync', 'owner_not_found'
  )) AS otherwise_count,
  count(*) FILTER (WHERE o.outcome IS NULL AND d.ended_at IS NULL AND g.running_count > 0 AND g.running_count < d.least_count) AS degraded_count,
  count(*) FILTER (WHERE o.outcome IS NULL AND d.ended_at IS NULL AND w.demand_id IS NOT NULL) AS pending_count,
  count(*) FILTER (
    WHERE o.outcome IS NULL AND d.ended_at IS NULL AND w.demand_id IS NULL
      AND NOT coalesce(g.running_count > 0 AND g.running_count < d.least_count, FALSE)
  ) AS living_count,
  count(*) FILTER (WHERE o.outcome IS NULL AND d.ended_at IS NOT NULL) AS not_told_count
FROM dim.demand AS d
JOIN dim.outcome AS o ON o.cluster = d.cluster AND o.demand_id = d.demand_id
LEFT JOIN dim.gang AS g ON g.cluster = d.cluster AND g.object_uid = d.demand_id AND g.object_kind = 'Job'
LEFT JOIN (
  SELECT DISTINCT cluster, demand_id
  FROM ledger.wait
  WHERE ended_at IS NULL AND stage IN ('queue', 'gate', 'scheduler', 'admission_check', 'backoff')
) AS w ON w.cluster = d.cluster AND w.demand_id = d.demand_id
WHERE coalesce(o.ended_at >= make_timestamp($from_us::BIGINT), TRUE) AND coalesce(o.ended_at < make_timestamp($to_us::BIGINT), TRUE)
  AND coalesce(least(d.created_at, d.first_seen_at) < make_timestamp($to_us::BIGINT), TRUE)
  AND is_among(d.cluster, $cluster_wanted) AND is_among(d.queue, $queue_wanted) AND is_among(d.namespace, $namespace_wanted)
  AND is_among(d.tenant, $tenant_wanted) AND is_among(d.priority, $priority_wanted) AND is_among(d.person, $person_wanted)
  AND is_among(d.workload_kind || '/' || d.workload_name, $workload_wanted) AND is_one_of(d.demand_id, $demand_id_wanted::VARCHAR[])
GROUP BY 1, 2, 3, 4, 5, 6, 7, d.scheduler
ORDER BY ALL;

-- name: decisions
-- What deciders said, by verdict, cause and rule. requests: about how many; times: how often, as the words themselves count it.
WITH asked AS (
  SELECT d.cluster, d.demand_id, d.demand_kind, d.namespace, d.name
  FROM dim.demand AS d
  WHERE $is_narrowed
    AND is_among(d.cluster, $cluster_wanted) AND is_among(d.queue, $queue_wanted) AND is_among(d.namespace, $namespace_wanted)
    AND is_among(d.tenant, $tenant_wanted) AND is_among(d.priority, $priority_wanted) AND is_among(d.person, $person_wanted)
    AND is_among(d.workload_kind || '/' || d.workload_name, $workload_wanted) AND is_one_of(d.demand_id, $demand_id_wanted::VARCHAR[])
),
subjects AS (
  SELECT cluster, demand_id AS uid FROM asked
  UNION
  SELECT m.cluster, m.pod_uid FROM asked AS a JOIN dim.demand_pod AS m ON m.cluster = a.cluster AND m.demand_id = a.demand_id
  UNION
  SELECT g.cluster, g.object_uid FROM asked AS a JOIN dim.gang AS g ON g.cluster = a.cluster AND g.owner_uid = a.demand_id
),
told AS (
  SELECT
    w.verdict, w.cause, w.rule, w.cluster || '/' || coalesce(w.subject_uid, coalesce(w.namespace, '') || '/' || w.subject_name) AS subject, w.evidence,
    sum(w.count) AS times
  FROM fact.decision AS w
  WHERE w.occurred_at >= make_timestamp($from_us::BIGINT) AND coalesce(w.first_at, w.occurred_at) < make_timestamp($to_us::BIGINT)
    AND (NOT $is_narrowed OR (w.cluster, w.subject_uid) IN (SELECT (cluster, uid) FROM subjects))
  GROUP BY ALL
)
SELECT verdict, cause, rule, count(DISTINCT subject) AS requests_count, CAST(sum(most) AS BIGINT) AS times, count(*) OVER () AS rows_count
FROM (SELECT verdict, cause, rule, subject, max(times) AS most FROM told GROUP BY ALL) AS each_subject
GROUP BY verdict, cause, rule
ORDER BY requests_count DESC, times DESC, verdict, cause, rule
LIMIT $listed_max;

-- name: gangs
-- Gangs that hold cards and do not run whole, and requests that were admitted and whose pods nobody could place.
WITH held AS (
  SELECT m.cluster, m.demand_id, count(DISTINCT h.pod_uid) AS pods_count, min(h.started_at) AS since_at
  FROM ledger.holding AS h
  JOIN dim.demand_pod AS m ON m.cluster = h.cluster AND m.pod_uid = h.pod_uid AND m.demand_kind <> 'pod'
  WHERE h.occupancy = 'held' AND h.ended_at IS NULL
  GROUP BY m.cluster, m.demand_id
),
cards AS (
  SELECT m.cluster, m.demand_id, TRY_CAST(sum(p.gpu_count * coalesce(p.requested_gpu_milli, 1000)) AS BIGINT) AS gpu_milli
  FROM held
  JOIN dim.demand_pod AS m ON m.cluster = held.cluster AND m.demand_id = held.demand_id
  JOIN dim.pod AS p ON p.cluster = m.cluster AND p.pod_uid = m.pod_uid
  SEMI JOIN (SELECT cluster, pod_uid FROM ledger.holding WHERE occupancy = 'held' AND ended_at IS NULL) AS open
    ON open.cluster = m.cluster AND open.pod_uid = m.pod_uid
  GROUP BY m.cluster, m.demand_id
),
released AS (
  SELECT w.cluster, w.demand_id, max(w.started_at) AS since_at, max(w.known_to_at) AS known_to_at, max(w.cause) AS cause
  FROM ledger.wait AS w
  WHERE w.stage = 'scheduler' AND w.demand_kind <> 'pod' AND w.ended_at IS NULL
  GROUP BY w.cluster, w.demand_id
),
started AS (
  SELECT s.cluster, s.demand_id, max(s."at") AS since_at
  FROM dim.step AS s
  JOIN dim.gang AS g ON g.cluster = s.cluster AND g.object_uid = s.demand_id AND g.running_count > 0
  WHERE s.step_no IN (7, 8)
  GROUP BY s.cluster, s.demand_id
),
refused AS (
  SELECT g.cluster, coalesce(j.demand_id, g.object_uid) AS demand_id, arg_max(w.cause, w.occurred_at) AS cause
  FROM fact.decision AS w
  JOIN dim.gang AS g ON g.cluster = w.cluster AND (g.object_uid = w.subject_uid OR w.subject_uid IS NULL AND g.namespace = w.namespace AND g.name = w.subject_name)
  LEFT JOIN dim.demand AS j ON j.cluster = g.cluster AND j.demand_id = g.owner_uid
  WHERE w.verdict IN ('not_now', 'never_fits') AND w.subject_kind <> 'Pod'
  GROUP BY ALL
),
gangs AS (
  SELECT
    d.cluster, d.demand_id, d.namespace, d.name, d.queue, d.tenant, d.priority, d.person, d.workload_kind || '/' || d.workload_name AS workload, d.scheduler,
    d.gpu_milli, d.pods_count, d.least_count, d.last_seen_at, d.ended_at,
    CASE WHEN coalesce(g.running_count, 0) > d.pods_seen_count THEN g.running_count ELSE coalesce(held.pods_count, 0) END AS running_count,
    CASE WHEN coalesce(g.running_count, 0) > d.pods_seen_count THEN 'status' ELSE 'pods' END AS basis,
    CASE
      WHEN coalesce(g.running_count, 0) > d.pods_seen_count THEN d.gpu_milli * g.running_count // nullif(d.pods_count, 0)
      ELSE cards.gpu_milli
    END AS held_milli,
    coalesce(held.since_at, started.since_at) AS holds_since_at, released.since_at AS released_at, released.known_to_at, d.demand_kind,
    coalesce(released.cause, refused.cause) AS cause
  FROM dim.demand AS d
  LEFT JOIN dim.gang AS g ON g.cluster = d.cluster AND g.object_uid = d.demand_id
  LEFT JOIN held ON held.cluster = d.cluster AND held.demand_id = d.demand_id
  LEFT JOIN cards ON cards.cluster = d.cluster AND cards.demand_id = d.demand_id
  LEFT JOIN released ON released.cluster = d.cluster AND released.demand_id = d.demand_id
  LEFT JOIN started ON started.cluster = d.cluster AND started.demand_id = d.demand_id
  LEFT JOIN refused ON refused.cluster = d.cluster AND refused.demand_id = d.demand_id
  WHERE d.demand_kind <> 'pod' AND d.ended_at IS NULL
)
SELECT
  CASE WHEN running_count > 0 THEN 'incomplete' ELSE 'admitted_unschedulable' END AS state, cluster, namespace, name, queue, tenant, scheduler,
  running_count, least_count, held_milli, gpu_milli, epoch_us(CASE WHEN running_count > 0 THEN holds_since_at ELSE released_at END) AS since_us,
  epoch_us(coalesce(known_to_at, last_seen_at)) AS known_to_us, cause, basis
FROM gangs
WHERE (
    running_count > 0 AND running_count < least_count AND (demand_kind = 'pod_group' OR released_at IS NOT NULL)
    OR running_count = 0 AND released_at IS NOT NULL
    AND (cause IS NOT NULL OR epoch_us(known_to_at) - epoch_us(released_at) > (SELECT leak_grace_us FROM dim.parameter))
  )
  AND coalesce(coalesce(holds_since_at, released_at) < make_timestamp($to_us::BIGINT), TRUE)
  AND coalesce(known_to_at, last_seen_at) >= make_timestamp($from_us::BIGINT)
  AND is_among(cluster, $cluster_wanted) AND is_among(queue, $queue_wanted) AND is_among(namespace, $namespace_wanted)
  AND is_among(tenant, $tenant_wanted) AND is_among(priority, $priority_wanted) AND is_among(person, $person_wanted)
  AND is_among(workload, $workload_wanted) AND is_one_of(demand_id, $demand_id_wanted::VARCHAR[])
ORDER BY state DESC, since_us, cluster, namespace, name;

-- name: contradictions
SELECT DISTINCT code, severity, subject, message
FROM (
  SELECT code, severity, subject, message FROM fact.finding
  UNION ALL
  SELECT code, severity, subject, message FROM ledger.finding
) AS both_kinds
WHERE code IN (SELECT unnest($codes))
ORDER BY CASE severity WHEN 'error' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END, code, subject, message;
