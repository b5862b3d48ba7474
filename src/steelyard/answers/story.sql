-- The story of a request (story.py). $uids: of its demands, pods and pod groups; $keys: `<kind>/<namespace>/<name>` of the same.

-- name: story_named
WITH named AS (
  SELECT cluster, demand_kind AS kind, namespace, name, demand_id AS uid, demand_id, tenant FROM dim.demand
  UNION
  SELECT cluster, lower(workload_kind), namespace, workload_name, NULL, demand_id, tenant
  FROM dim.demand
  WHERE workload_name IS NOT NULL AND NOT (workload_kind IN ('Pod', 'Workload') AND workload_name = name)
  UNION
  SELECT p.cluster, 'pod', p.namespace, p.pod, p.pod_uid, m.demand_id, d.tenant
  FROM dim.demand_pod AS m
  JOIN dim.pod AS p ON p.cluster = m.cluster AND p.pod_uid = m.pod_uid
  JOIN dim.demand AS d ON d.cluster = m.cluster AND d.demand_id = m.demand_id
  UNION
  SELECT g.cluster, 'pod_group', g.namespace, g.name, g.object_uid, d.demand_id, d.tenant
  FROM dim.gang AS g
  JOIN dim.demand AS d ON d.cluster = g.cluster AND d.demand_id = g.owner_uid
  WHERE g.object_kind = 'PodGroup'
  UNION
  SELECT w.cluster, lower(w.object_kind), w.namespace, w.object_name, w.object_uid, d.demand_id, d.tenant
  FROM dim.workload AS w
  JOIN dim.demand AS d
    ON d.cluster = w.cluster AND d.namespace = w.root_namespace AND d.workload_kind = w.root_kind AND d.workload_name = w.root_name
)
SELECT DISTINCT cluster, kind, namespace, name, uid, demand_id
FROM named
WHERE ($tenant::VARCHAR IS NULL OR tenant = $tenant)
  AND ($cluster::VARCHAR IS NULL OR cluster = $cluster)
  AND (
    $kind::VARCHAR IS NULL OR kind = $kind
    OR ($kind = 'workload' AND kind NOT IN ('pod', 'pod_group'))
    OR ($kind = 'job' AND kind NOT IN ('pod', 'pod_group', 'workload'))
  )
  AND (uid = $typed OR (name = $plain AND ($namespace::VARCHAR IS NULL OR namespace = $namespace)))
ORDER BY cluster, namespace, name, kind, demand_id;

-- name: story_near
SELECT shown
FROM (
  SELECT DISTINCT namespace || '/' || name AS shown, name
  FROM (
    SELECT namespace, name, tenant FROM dim.demand
    UNION ALL
    SELECT namespace, workload_name, tenant FROM dim.demand WHERE workload_name IS NOT NULL
  ) AS named
  WHERE $tenant::VARCHAR IS NULL OR tenant = $tenant
) AS names
ORDER BY greatest(jaro_winkler_similarity(shown, $typed), jaro_winkler_similarity(name, $plain)) DESC, shown
LIMIT $listed_max;

-- name: story_now
SELECT epoch_us(greatest(
  (SELECT max(known_to_at) FROM ledger.wait WHERE cluster = $cluster),
  (SELECT max(last_at) FROM dim.known_span WHERE cluster = $cluster),
  (SELECT max(last_seen_at) FROM dim.demand WHERE cluster = $cluster AND list_contains($demands, demand_id))
)) AS now_us;

-- name: story_demands
SELECT
  d.demand_id, d.demand_kind, d.namespace, d.name, d.queue, d.local_queue, d.workload_kind, d.workload_name, d.tenant, d.person, d.person_basis,
  d.priority, d.gpu_milli, d.pods_count, epoch_us(d.created_at) AS created_us, epoch_us(d.ended_at) AS ended_us, d.end_kind, d.scheduler, d.phase,
  d.attempts, d.is_kueue_pod, epoch_us(d.first_seen_at) AS first_seen_us, epoch_us(d.last_seen_at) AS last_seen_us
FROM dim.demand AS d
WHERE d.cluster = $cluster AND list_contains($demands, d.demand_id) AND coalesce(epoch_us(least(d.created_at, d.first_seen_at)), 0) <= $at_us
ORDER BY d.ended_at IS NOT NULL, d.created_at DESC, d.demand_id;

-- name: story_subjects
SELECT 'Pod' AS kind, p.pod_uid AS uid, p.namespace, p.pod AS name, m.demand_id
FROM dim.demand_pod AS m
JOIN dim.pod AS p ON p.cluster = m.cluster AND p.pod_uid = m.pod_uid
WHERE m.cluster = $cluster AND list_contains($demands, m.demand_id)
UNION
SELECT g.object_kind, g.object_uid, g.namespace, g.name, d.demand_id
FROM dim.gang AS g
JOIN dim.demand AS d ON d.cluster = g.cluster AND d.demand_id IN (g.object_uid, g.owner_uid)
WHERE d.cluster = $cluster AND list_contains($demands, d.demand_id)
ORDER BY 5, 1, 4, 2;

-- name: story_steps
SELECT s.demand_id, epoch_us(s."at") AS at_us, s.step, s.step_no, s.basis, s.is_deactivation, p.namespace, p.pod, p.node
FROM dim.step AS s
LEFT JOIN dim.pod AS p ON p.cluster = s.cluster AND p.pod_uid = s.pod_uid
WHERE s.cluster = $cluster AND list_contains($demands, s.demand_id)
ORDER BY s."at", s.step_no, s.demand_id, p.pod;

-- name: story_decisions
WITH told AS (
  SELECT
    subject_kind, subject_uid, namespace, subject_name, decided_by, verdict, cause, rule, queue, node, resource, flavor, asked_milli,
    missing_milli, limit_milli, nodes_count, reason, message, evidence, natural_key, details,
    CASE WHEN verdict NOT IN ('not_now', 'never_fits', 'misconfigured') THEN epoch_us(occurred_at) // 1000000 END AS second_no,
    min(least(first_at, occurred_at)) AS first_at,
    max(occurred_at) FILTER (WHERE epoch_us(occurred_at) <= $at_us) AS last_at,
    max(count) FILTER (WHERE epoch_us(occurred_at) <= $at_us) AS times
  FROM fact.decision
  WHERE cluster = $cluster AND epoch_us(least(first_at, occurred_at)) <= $at_us
    AND (
      list_contains($uids, subject_uid)
      OR (
        list_contains($keys, subject_kind || '/' || coalesce(namespace, '') || '/' || subject_name)
        AND NOT EXISTS (SELECT 1 FROM dim.demand_pod AS m WHERE m.cluster = $cluster AND m.pod_uid = fact.decision.subject_uid)
        AND NOT EXISTS (SELECT 1 FROM dim.gang AS g WHERE g.cluster = $cluster AND g.object_uid = fact.decision.subject_uid)
      )
    )
  GROUP BY ALL
),
words AS (
  SELECT * EXCLUDE (natural_key, first_at, last_at, times),
    min(first_at) AS first_at, max(coalesce(last_at, first_at)) AS last_at, CAST(sum(times) AS BIGINT) AS times, count(*) = count(times) AS is_counted
  FROM told
  GROUP BY ALL
)
SELECT
  subject_kind, subject_uid, namespace, subject_name, any_value(decided_by) AS decided_by, verdict, cause, rule, max(queue) AS queue, max(node) AS node,
  resource, flavor, asked_milli, missing_milli, limit_milli, nodes_count, min(message) AS message, details, epoch_us(min(first_at)) AS first_us,
  epoch_us(max(last_at)) AS last_us, max(times) AS times, bool_and(is_counted) AS is_counted,
  string_agg(DISTINCT evidence, ', ' ORDER BY evidence) AS evidence
FROM words
GROUP BY
  subject_kind, subject_uid, namespace, subject_name, verdict, cause, rule, resource, flavor, asked_milli, missing_milli, limit_milli, nodes_count,
  details, second_no
ORDER BY first_us, verdict, subject_name;

-- name: story_preemptions
SELECT
  epoch_us(preempted_at) AS at_us, time_basis, decided_by, cause, victim_demand_id, victim_kind, victim_namespace, victim_name, victim_queue,
  victim_priority, pods_count, preemptor_demand_id, preemptor_uid, preemptor_namespace, preemptor_name, preemptor_queue, preemptor_priority,
  victim_tenant, preemptor_tenant, node, evidence, words_count
FROM dim.preemption
WHERE cluster = $cluster AND epoch_us(preempted_at) <= $at_us
  AND (list_contains($demands, victim_demand_id) OR list_contains($demands, preemptor_demand_id))
ORDER BY preempted_at, victim_namespace, victim_name;

-- name: story_refusals
SELECT
  refused_by, verb, "user", subject_kind, namespace, subject_name, owner, rule, resource, asked_milli, used_milli, limit_milli, response_code,
  min(message) AS message, epoch_us(min(occurred_at)) AS first_us, epoch_us(max(occurred_at)) AS last_us, CAST(sum(count) AS BIGINT) AS times
FROM fact.refusal
WHERE cluster = $cluster AND epoch_us(occurred_at) <= $at_us
  AND (
    list_contains($keys, subject_kind || '/' || coalesce(namespace, '') || '/' || subject_name)
    OR list_contains($owners, coalesce(namespace, '') || '/' || owner)
  )
GROUP BY ALL
ORDER BY first_us, refused_by, subject_name;

-- name: story_holdings
SELECT
  m.demand_id, h.namespace, h.pod, h.node, h.occupancy, h.scheme, epoch_us(min(h.started_at)) AS started_us,
  CASE WHEN count(*) = count(h.ended_at) THEN epoch_us(max(h.ended_at)) END AS ended_us, epoch_us(max(h.known_to_at)) AS known_to_us,
  CASE WHEN count(*) = count(h.share_ppm) THEN CAST(sum(h.share_ppm) FILTER (WHERE h.segment = 0) AS BIGINT) END AS share_ppm,
  string_agg(DISTINCT h.device_uuid, ', ' ORDER BY h.device_uuid) AS cards, min(h.start_basis) AS start_basis, max(h.end_basis) AS end_basis,
  min(h.evidence_grade) AS grade
FROM ledger.holding AS h
JOIN dim.demand_pod AS m ON m.cluster = h.cluster AND m.pod_uid = h.pod_uid
WHERE h.cluster = $cluster AND list_contains($demands, m.demand_id) AND epoch_us(h.started_at) <= $at_us
GROUP BY m.demand_id, h.pod_uid, h.namespace, h.pod, h.node, h.occupancy, h.scheme
ORDER BY started_us, h.pod, h.occupancy;

-- name: story_events
SELECT
  e.reason, e.component, e.subject_kind, e.subject_namespace, e.subject_name, min(e.message) AS message, epoch_us(min(least(e.first_at, e.occurred_at))) AS first_us,
  epoch_us(max(e.occurred_at)) AS last_us, max(e.count) AS times
FROM fact.event AS e
WHERE e.cluster = $cluster AND e.kind = 'kubernetes' AND epoch_us(e.occurred_at) <= $at_us AND list_contains($uids, e.subject_uid)
  AND NOT EXISTS (SELECT 1 FROM fact.decision AS d WHERE d.cluster = e.cluster AND d.subject_uid = e.subject_uid AND d.message = e.message)
  AND NOT EXISTS (SELECT 1 FROM fact.preemption AS p WHERE p.cluster = e.cluster AND p.message = e.message)
GROUP BY e.reason, e.component, e.subject_kind, e.subject_namespace, e.subject_name, coalesce(e.severity, '')
ORDER BY first_us, e.reason, e.subject_name;

-- name: story_waits
SELECT
  w.demand_id, w.demand_kind, w.stage, w.queue, w.segment, epoch_us(w.started_at) AS started_us, epoch_us(w.ended_at) AS ended_us,
  epoch_us(w.known_to_at) AS known_to_us, w.ended_by, w.cause, w.fit, w.unknown_reason
FROM ledger.wait AS w
WHERE w.cluster = $cluster AND list_contains($demands, w.demand_id) AND epoch_us(w.started_at) <= $at_us
  AND (w.ended_at IS NULL OR epoch_us(w.ended_at) > $at_us)
ORDER BY w.demand_id, w.started_at;

-- name: story_all_waits
SELECT
  w.demand_id, w.demand_kind, w.stage, w.queue, w.segment, epoch_us(w.started_at) AS started_us, epoch_us(w.ended_at) AS ended_us,
  w.ended_by, w.basis, w.unknown_reason
FROM ledger.wait AS w
WHERE w.cluster = $cluster AND list_contains($demands, w.demand_id) AND epoch_us(w.started_at) <= $at_us
ORDER BY w.started_at, w.demand_id, w.segment, w.stage;

-- name: story_gangs
-- The latest word of each workload by then: whether it is active, and its evictions as its controller counts them.
SELECT
  object_uid AS demand_id, arg_max(active, occurred_at) AS active, arg_max(evictions, occurred_at) AS evictions, epoch_us(max(occurred_at)) AS seen_us,
  epoch_us(min(occurred_at) FILTER (WHERE NOT active)) AS inactive_us
FROM fact.gang
WHERE cluster = $cluster AND list_contains($demands, object_uid) AND epoch_us(occurred_at) <= $at_us
GROUP BY object_uid;

-- name: story_requeues
-- Each back-off that a controller told of, and when it was first seen so: when its count rose is not said.
SELECT object_uid AS demand_id, requeue_count, epoch_us(requeue_at) AS until_us, epoch_us(min(occurred_at)) AS seen_us
FROM fact.gang
WHERE cluster = $cluster AND list_contains($demands, object_uid) AND requeue_count IS NOT NULL AND epoch_us(occurred_at) <= $at_us
GROUP BY object_uid, requeue_count, requeue_at
ORDER BY seen_us, object_uid, until_us;

-- name: story_leaks
SELECT demand_id, from_us, CASE WHEN NOT is_open THEN to_us END AS to_us, admitted, flavors
FROM dim.quota_leak
WHERE cluster = $cluster AND list_contains($demands, demand_id) AND from_us <= $at_us
ORDER BY from_us, demand_id;

-- name: story_queue
SELECT d.demand_id, d.namespace, d.name, d.priority, d.gpu_milli, epoch_us(d.created_at) AS created_us
FROM ledger.wait AS w
JOIN dim.demand AS d ON d.cluster = w.cluster AND d.demand_id = w.demand_id
WHERE w.cluster = $cluster AND w.stage = $stage AND w.demand_kind = $demand_kind AND w.queue IS NOT DISTINCT FROM $queue
  AND epoch_us(w.started_at) <= $at_us AND (w.ended_at IS NULL OR epoch_us(w.ended_at) > $at_us)
QUALIFY row_number() OVER (PARTITION BY d.demand_id ORDER BY w.started_at DESC) = 1
ORDER BY coalesce(d.priority, 0) DESC, d.created_at NULLS LAST, d.demand_id;

-- name: story_strategy
SELECT queue_kind, arg_max(strategy, occurred_at) AS strategy, arg_max(state, occurred_at) AS state, arg_max(state_message, occurred_at) AS state_message,
  arg_max(stop_policy, occurred_at) AS stop_policy, epoch_us(max(occurred_at)) AS said_us
FROM fact.queue
WHERE cluster = $cluster AND queue = $queue AND queue_kind IN ('cluster_queue', 'volcano_queue') AND epoch_us(occurred_at) <= $at_us
GROUP BY queue_kind
ORDER BY said_us DESC
LIMIT 1;

-- name: story_quota
SELECT queue_kind, flavor, resource, max_capacity_milli, nominal_milli, used_milli, reserved_milli, leaked_milli, idle_milli, pool, epoch_us(said_at) AS said_us
FROM dim.quota_now
WHERE cluster = $cluster AND queue = $queue AND queue_kind <> 'pool' AND epoch_us(said_at) <= $at_us
ORDER BY resource, flavor;

-- name: story_quota_fit
SELECT resource, asked_milli, limit_milli, fit, unread FROM dim.quota_fit WHERE cluster = $cluster AND demand_id = $demand;

-- name: story_node_fit
SELECT resource AS fit_resource, asked_count, most_count, nodes_count, memory_mib AS fit_memory_mib, model AS fit_model, lacking
FROM dim.node_fit
WHERE cluster = $cluster AND demand_id = $demand;

-- name: story_doubled
-- An object of which no row stands, since another has its uid: what findings say of that.
SELECT subject, CAST(json_extract(evidence, '$.objects_count') AS BIGINT) AS objects_count
FROM ledger.finding
WHERE code = 'uid_of_several_objects' AND ($cluster::VARCHAR IS NULL OR cluster = $cluster)
  AND EXISTS (
    SELECT 1
    FROM (SELECT unnest(CAST(json_extract(evidence, '$.objects') AS VARCHAR[])) AS object) AS named
    WHERE CASE
      WHEN $namespace::VARCHAR IS NULL THEN split_part(split_part(object, ' ', 2), '/', 2) = $plain ELSE split_part(object, ' ', 2) = $namespace || '/' || $plain
    END
  )
ORDER BY cluster, subject
LIMIT 1;

-- name: story_outcomes
SELECT demand_id, outcome, basis, outcome_by, outcome_cause, epoch_us(ended_at) AS ended_us, pods_succeeded_count, pods_failed_count
FROM dim.outcome
WHERE cluster = $cluster AND list_contains($demands, demand_id) AND outcome IS NOT NULL
ORDER BY demand_id;

-- name: story_remaining
WITH never AS (
  SELECT subject_uid
  FROM fact.decision
  WHERE cluster = $cluster AND subject_uid IS NOT NULL AND epoch_us(least(first_at, occurred_at)) <= $at_us AND verdict IN ('never_fits', 'not_now')
  GROUP BY subject_uid
  HAVING arg_max(verdict, least(first_at, occurred_at)) = 'never_fits'
),
cohort AS (
  SELECT
    least(epoch_us(w.known_to_at), $at_us) - epoch_us(w.started_at) AS wait_us,
    coalesce(w.ended_by IN ('reserved', 'scheduled', 'running') AND epoch_us(w.ended_at) <= $at_us, FALSE) AS is_event
  FROM ledger.wait AS w
  WHERE w.cluster = $cluster AND w.stage = $stage AND w.demand_kind = $demand_kind AND w.queue IS NOT DISTINCT FROM $queue
    AND w.unknown_reason IS NULL AND epoch_us(w.started_at) <= $at_us AND w.demand_id <> $own AND w.demand_id NOT IN (SELECT subject_uid FROM never)
),
times AS (
  SELECT wait_us, count(*) AS waits, count(*) FILTER (WHERE is_event) AS events
  FROM cohort
  WHERE wait_us > $age_us
  GROUP BY wait_us
),
risks AS (SELECT *, sum(waits) OVER (ORDER BY wait_us DESC) AS at_risk FROM times),
products AS (
  SELECT *, exp(sum(CASE WHEN events = 0 THEN 0 WHEN events = at_risk THEN -1e300 ELSE ln((at_risk - events) / at_risk) END) OVER (ORDER BY wait_us)) AS survival
  FROM risks
)
SELECT
  CAST(coalesce(sum(waits), 0) AS BIGINT) AS waits_count, CAST(coalesce(sum(events), 0) AS BIGINT) AS events_count,
  min(wait_us) FILTER (WHERE events > 0 AND survival <= 0.9 * (1 + 1e-9)) - $age_us AS p10_us,
  min(wait_us) FILTER (WHERE events > 0 AND survival <= 0.5 * (1 + 1e-9)) - $age_us AS p50_us,
  min(wait_us) FILTER (WHERE events > 0 AND survival <= 0.1 * (1 + 1e-9)) - $age_us AS p90_us
FROM products;

-- name: story_heard
-- What events, decisions and refusals alone tell of, by kind, namespace and name: its uids, when it was told of, and the last verdict. Its tenant is by
-- its namespace and name, since labels and queues of what nobody saw are not known.
WITH words AS (
  SELECT cluster, subject_kind AS kind, namespace, subject_name AS name, subject_uid AS uid, least(first_at, occurred_at) AS first_at, occurred_at AS last_at,
    verdict
  FROM fact.decision
  WHERE subject_kind IN ('Pod', 'Workload', 'PodGroup', 'Job') AND (subject_name = $plain OR subject_uid = $typed)
  UNION ALL
  SELECT cluster, subject_kind, subject_namespace, subject_name, subject_uid, least(first_at, occurred_at), occurred_at, NULL
  FROM fact.event
  WHERE kind = 'kubernetes' AND subject_kind IN ('Pod', 'Workload', 'PodGroup', 'Job') AND (subject_name = $plain OR subject_uid = $typed)
  UNION ALL
  SELECT cluster, subject_kind, namespace, subject_name, NULL, occurred_at, occurred_at, 'rejected'
  FROM fact.refusal
  WHERE subject_kind IN ('Pod', 'Workload', 'PodGroup', 'Job') AND subject_name = $plain
),
named AS (
  SELECT *
  FROM words
  WHERE name IS NOT NULL AND ($cluster::VARCHAR IS NULL OR cluster = $cluster) AND ($kind::VARCHAR IS NULL OR kind = $kind)
    AND (uid = $typed OR (name = $plain AND ($namespace::VARCHAR IS NULL OR namespace = $namespace)))
),
tenants AS (
  SELECT n.namespace, n.name, arg_min(coalesce(t.tenant, tenant_rule_value(t.attribute, t.key, n.namespace, '{}', '{}', n.name, NULL)), t.position) AS tenant
  FROM (SELECT DISTINCT namespace, name FROM named) AS n
  JOIN dim.tenant_rule AS t
    ON tenant_rule_matches(tenant_rule_value(t.attribute, t.key, n.namespace, '{}', '{}', n.name, NULL), t.like_pattern)
  GROUP BY n.namespace, n.name
)
SELECT
  n.cluster, n.kind, n.namespace, n.name, n.uid, epoch_us(min(n.first_at)) AS first_us, epoch_us(max(n.last_at)) AS last_us,
  arg_max(n.verdict, n.last_at) FILTER (WHERE n.verdict IS NOT NULL) AS verdict,
  epoch_us(max(n.last_at) FILTER (WHERE n.verdict IS NOT NULL)) AS verdict_us, coalesce(any_value(t.tenant), 'unmapped') AS tenant
FROM named AS n
LEFT JOIN tenants AS t ON t.name = n.name AND t.namespace IS NOT DISTINCT FROM n.namespace
WHERE $tenant::VARCHAR IS NULL OR coalesce(t.tenant, 'unmapped') = $tenant
GROUP BY n.cluster, n.kind, n.namespace, n.name, n.uid
ORDER BY n.cluster, n.namespace, n.name, n.kind, n.uid;
