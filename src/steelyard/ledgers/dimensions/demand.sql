-- What waits as one: a Workload, a Volcano job with its PodGroup (or a PodGroup alone), else a pod with its retries. A workload that only the audit log
-- tells of has the uid `name:<namespace>/<name>` and no word of its own; one that only events tell of has what they tell.
-- evictions_*, past_run_us, whole_seen_at, inactive_at, first_seen_at: what `wait` needs to tell a known wait from one that cannot be recovered.
-- person: who stands behind it; person_basis: `annotation` (a key of dim.person_annotation on a pod of it), `creator` (who created the topmost object of its
-- owner chain, by the audit log: the impersonated one, and no account of the system), `contact` (of its namespace, by the settings or the namespace's own annotation).
-- demand_no: numbers demands within one posting, for joins: by the row of the gang or pod, since a counter would make it go one by one. is_gated: the pod, or one of the gang's, was seen behind a scheduling gate. is_kueue_pod: Kueue manages it, and its workload was not seen. lacks_workload: it
-- names a queue of Kueue, all workloads were listed, and none of it was among them: nobody is known to manage it, and its wait is the scheduler's.
WITH local_queues AS (
  SELECT cluster, namespace, queue, arg_max(parent, occurred_at) AS parent
  FROM fact.queue
  WHERE queue_kind = 'local_queue'
  GROUP BY cluster, namespace, queue
),
told AS (
  SELECT
    t.cluster, t.object_uid, any_value(t.namespace) AS namespace, any_value(t.object_name) AS name,
    min(t.occurred_at) AS first_seen_at, max(t.occurred_at) AS last_seen_at
  FROM fact.transition AS t
  ANTI JOIN dim.gang AS g ON g.cluster = t.cluster AND g.object_uid = t.object_uid
  WHERE t.object_kind = 'Workload' AND t.object_group = 'kueue.x-k8s.io' AND t.aspect = 'condition'
  GROUP BY t.cluster, t.object_uid
),
-- Told of by events alone. An event's uid may be another's, so its name decides.
heard AS (
  SELECT
    e.cluster, arg_max(coalesce(e.subject_uid, 'name:' || e.namespace || '/' || e.subject_name), e.occurred_at) AS object_uid,
    e.namespace, e.subject_name AS name, min(e.occurred_at) AS first_seen_at, max(e.occurred_at) AS last_seen_at,
    arg_max(e.queue, e.occurred_at) AS queue
  FROM fact.decision AS e
  ANTI JOIN dim.gang AS g
    ON g.cluster = e.cluster AND g.object_kind = 'Workload' AND g.namespace = e.namespace AND g.name = e.subject_name
  ANTI JOIN told AS t ON t.cluster = e.cluster AND t.namespace = e.namespace AND t.name = e.subject_name
  WHERE e.subject_kind = 'Workload' AND e.evidence = 'event' AND e.verdict IN ('reserved', 'admitted', 'evicted', 'deactivated')
  GROUP BY e.cluster, e.namespace, e.subject_name
),
strangers AS (
  SELECT * FROM heard
  UNION ALL
  SELECT t.*, NULL
  FROM told AS t
  ANTI JOIN dim.gang AS g
    ON g.cluster = t.cluster AND g.object_kind = 'Workload' AND g.namespace = t.namespace AND g.name = t.name
    AND starts_with(t.object_uid, 'name:')
),
-- A controller that counts no evictions still says that there was one.
requeued AS (
  SELECT DISTINCT cluster, object_uid
  FROM fact.transition
  WHERE object_kind = 'Workload' AND aspect = 'condition' AND (item = 'Requeued' OR (item = 'Evicted' AND value = 'False'))
),
gated AS (
  SELECT DISTINCT cluster, object_uid AS pod_uid
  FROM fact.transition
  WHERE object_kind = 'Pod' AND aspect = 'condition' AND item = 'PodScheduled' AND value = 'False' AND reason = 'SchedulingGated'
),
-- Where all workloads were listed at least once.
workloads_listed AS (
  SELECT DISTINCT cluster
  FROM fact.source_status
  WHERE kind = 'workloads.kueue.x-k8s.io' AND scope = 'cluster' AND complete AND status = 'ok'
),
members AS (
  SELECT m.cluster, m.demand_id, count(*) AS pods_seen_count, count(g.pod_uid) > 0 AS is_gated
  FROM dim.demand_pod AS m
  LEFT JOIN gated AS g ON g.cluster = m.cluster AND g.pod_uid = m.pod_uid
  WHERE m.demand_kind <> 'pod'
  GROUP BY m.cluster, m.demand_id
),
group_names AS (
  SELECT cluster, owner_uid, max(min_count) AS min_count, max(gpu_milli) AS gpu_milli
  FROM dim.gang
  WHERE object_kind = 'PodGroup' AND owner_uid IS NOT NULL
  GROUP BY cluster, owner_uid
),
pods AS (
  SELECT
    m.rowid AS place, m.cluster, m.demand_id, p.pod_uid, p.namespace, p.pod, p.tenant, p.queue, p.workload_kind, p.workload_name, p.priority, p.labels, l.source,
    p.gpu_count * coalesce(p.requested_gpu_milli, 1000) AS gpu_milli, p.created_at, p.phase, p.scheduler, o.owner_uid,
    coalesce(l.last_container_end_at, CASE WHEN l.rejected THEN l.started_at END, CASE WHEN l.terminal THEN l.terminal_seen_at END) AS finished_at,
    p.first_seen_at, p.last_seen_at, l.gone_by_at, l.deleted_at, l.deletion_at, g.pod_uid IS NOT NULL AS is_gated,
    row_number() OVER newest AS age, count(*) OVER (PARTITION BY m.cluster, m.demand_id) AS attempts,
    min(p.created_at) OVER (PARTITION BY m.cluster, m.demand_id) AS first_created_at
  FROM dim.demand_pod AS m
  JOIN dim.pod AS p ON p.cluster = m.cluster AND p.pod_uid = m.pod_uid
  JOIN dim.pod_life AS l ON l.cluster = m.cluster AND l.pod_uid = m.pod_uid
  LEFT JOIN gated AS g ON g.cluster = m.cluster AND g.pod_uid = m.pod_uid
  LEFT JOIN dim.pod_owner AS o ON o.cluster = m.cluster AND o.pod_uid = m.pod_uid
  WHERE m.demand_kind = 'pod'
  WINDOW newest AS (PARTITION BY m.cluster, m.demand_id ORDER BY coalesce(p.created_at, p.first_seen_at) DESC, p.pod_uid DESC)
),
demands AS (
  SELECT
    g.rowid + 1 AS demand_no, g.cluster, g.object_uid AS demand_id, CASE WHEN g.object_kind = 'Workload' THEN 'workload' ELSE 'pod_group' END AS demand_kind,
    g.namespace, g.name,
    CASE WHEN g.object_kind = 'Workload' THEN coalesce(g.cluster_queue, q.parent) ELSE g.queue END AS queue,
    CASE WHEN g.object_kind = 'Workload' THEN g.queue END AS local_queue,
    CASE WHEN g.object_kind = 'Job' THEN 'vcjob' ELSE coalesce(g.owner_kind, g.object_kind) END AS workload_kind,
    CASE WHEN g.object_kind = 'Job' THEN g.name ELSE coalesce(g.owner_name, g.name) END AS workload_name,
    CAST(NULL AS VARCHAR) AS tenant, g.priority, coalesce(g.gpu_milli, n.gpu_milli) AS gpu_milli, g.pods_count,
    coalesce(g.min_count, n.min_count, g.pods_count) AS least_count,
    g.created_at, coalesce(g.finished_at, g.gone_at) AS ended_at,
    CASE WHEN g.finished_at IS NOT NULL THEN 'finished' WHEN g.gone_at IS NOT NULL THEN 'abandoned' END AS end_kind,
    g.first_seen_at, g.last_seen_at, CASE WHEN g.object_kind = 'Workload' THEN 'kueue' ELSE 'volcano' END AS scheduler, g.phase,
    CAST(NULL AS BIGINT) AS attempts, coalesce(m.pods_seen_count, 0) AS pods_seen_count,
    CASE WHEN r.object_uid IS NOT NULL THEN greatest(g.evictions_count, 1) ELSE g.evictions_count END AS evictions_count,
    CASE WHEN r.object_uid IS NOT NULL THEN greatest(g.evictions_first_count, 1) ELSE g.evictions_first_count END AS evictions_first_count,
    g.past_run_us, g.whole_seen_at, g.last_word_at, g.inactive_at, coalesce(m.is_gated, FALSE) AS is_gated, FALSE AS is_kueue_pod, FALSE AS lacks_workload,
    g.owner_uid
  FROM dim.gang AS g
  LEFT JOIN local_queues AS q ON q.cluster = g.cluster AND q.namespace = g.namespace AND q.queue = g.queue
  LEFT JOIN members AS m ON m.cluster = g.cluster AND m.demand_id = g.object_uid
  LEFT JOIN requeued AS r ON r.cluster = g.cluster AND r.object_uid = g.object_uid
  LEFT JOIN group_names AS n ON n.cluster = g.cluster AND n.owner_uid = g.object_uid
  WHERE NOT (g.object_kind = 'PodGroup' AND coalesce((g.cluster, g.owner_uid) IN (SELECT (cluster, object_uid) FROM dim.gang WHERE object_kind = 'Job'), FALSE))
  UNION ALL
  SELECT
    (SELECT count(*) FROM dim.gang) + (SELECT count(*) FROM dim.demand_pod) + row_number() OVER (), s.cluster, s.object_uid, 'workload', s.namespace, s.name, s.queue, NULL, 'Workload', s.name, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    s.first_seen_at, s.last_seen_at, 'kueue', NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, FALSE, FALSE, FALSE, NULL
  FROM strangers AS s
  UNION ALL
  SELECT
    (SELECT count(*) FROM dim.gang) + place + 1, cluster, demand_id, 'pod', namespace, pod, NULL,
    coalesce(json_extract_string(labels, '$."kueue.x-k8s.io/queue-name"'), queue),
    coalesce(workload_kind, 'Pod'), coalesce(workload_name, pod), tenant, priority, gpu_milli, 1, 1, first_created_at,
    CASE
      WHEN finished_at IS NOT NULL THEN finished_at
      WHEN source IN (SELECT source FROM fact.source_status WHERE kind = 'trace') THEN deletion_at
      ELSE coalesce(deleted_at, CASE WHEN gone_by_at IS NOT NULL THEN last_seen_at END)
    END,
    CASE
      WHEN finished_at IS NOT NULL THEN 'finished'
      WHEN gone_by_at IS NOT NULL OR deletion_at IS NOT NULL AND source IN (SELECT source FROM fact.source_status WHERE kind = 'trace')
        THEN 'abandoned'
    END,
    first_seen_at, last_seen_at, scheduler, phase, attempts, attempts, 0, 0, NULL, NULL, NULL, NULL, is_gated,
    labels <> '{}' AND (
      coalesce(json_extract_string(labels, '$."kueue.x-k8s.io/managed"') = 'true', FALSE)
      OR json_extract_string(labels, '$."kueue.x-k8s.io/queue-name"') IS NOT NULL AND cluster NOT IN (SELECT cluster FROM workloads_listed)
    ),
    labels <> '{}' AND json_extract_string(labels, '$."kueue.x-k8s.io/queue-name"') IS NOT NULL AND cluster IN (SELECT cluster FROM workloads_listed)
      AND coalesce(json_extract_string(labels, '$."kueue.x-k8s.io/managed"') <> 'true', TRUE),
    owner_uid
  FROM pods
  WHERE age = 1
),
-- A server-side apply creates with a patch that is answered 201.
creations AS (
  SELECT cluster, resource, namespace, name, occurred_at, coalesce(impersonated_user, "user") AS person
  FROM fact.audit_event
  WHERE (verb = 'create' AND response_code BETWEEN 200 AND 299 OR verb IN ('patch', 'update') AND response_code = 201)
    AND stage = 'ResponseComplete' AND subresource IS NULL AND name IS NOT NULL
    AND NOT starts_with(coalesce(impersonated_user, "user"), 'system:')
),
-- Itself, then what it belongs to, to the root.
links AS (
  SELECT
    d.cluster, d.demand_id, d.namespace, d.created_at,
    unnest(list_concat(
      [
        CASE d.demand_kind WHEN 'pod' THEN 'Pod' WHEN 'workload' THEN 'Workload' ELSE CASE WHEN d.workload_kind = 'vcjob' THEN 'vcjob' ELSE 'PodGroup' END END
          || '/' || d.name
      ],
      coalesce(w.chain, []), [d.workload_kind || '/' || d.workload_name]
    )) AS link,
    generate_subscripts(list_concat([''], coalesce(w.chain, []), ['']), 1) AS step
  FROM demands AS d
  LEFT JOIN dim.workload AS w ON w.cluster = d.cluster AND w.object_uid = d.owner_uid
  WHERE EXISTS (SELECT 1 FROM creations)
),
creators AS (
  SELECT l.cluster, l.demand_id, arg_max(c.person, (l.step, c.occurred_at)) AS person
  FROM links AS l
  JOIN creations AS c
    ON c.cluster = l.cluster AND c.namespace = l.namespace AND c.name = split_part(l.link, '/', 2)
    AND c.resource = CASE split_part(l.link, '/', 1) WHEN 'vcjob' THEN 'jobs' ELSE lower(split_part(l.link, '/', 1)) || 's' END
  WHERE c.occurred_at <= coalesce(l.created_at, TIMESTAMP '9999-12-31') + INTERVAL 5 SECOND
  GROUP BY l.cluster, l.demand_id
),
annotated AS (
  SELECT m.cluster, m.demand_id, arg_min(n.person, (n.position, m.pod_uid)) AS person
  FROM dim.demand_pod AS m
  JOIN (
    SELECT
      o.cluster, o.pod_uid, a.position,
      nullif(trim(left(json_extract_string(o.annotations, '/' || replace(replace(a.key, '~', '~0'), '/', '~1')), 253)), '') AS person
    FROM dim.pod_owner AS o
    JOIN dim.person_annotation AS a ON contains(o.annotations, a.key)
  ) AS n ON n.cluster = m.cluster AND n.pod_uid = m.pod_uid AND n.person IS NOT NULL
  GROUP BY m.cluster, m.demand_id
),
-- Of gangs; rules that look at names of workloads need all of those, others far less.
naming AS (
  SELECT coalesce(bool_or(attribute = 'workload'), FALSE) AS by_workload FROM dim.tenant_rule
),
kinds AS (
  SELECT DISTINCT namespace, CASE WHEN (SELECT by_workload FROM naming) THEN workload_name ELSE '' END AS workload_name, local_queue
  FROM demands
  WHERE demand_kind <> 'pod'
),
tenants AS (
  SELECT k.namespace, k.workload_name, k.local_queue, arg_min(coalesce(k.tenant, k.value), k.position) AS tenant
  FROM (
    SELECT
      e.namespace, e.workload_name, e.local_queue, t.position, t.tenant, t.like_pattern,
      tenant_rule_value(t.attribute, t.key, e.namespace, '{}', '{}', e.workload_name, e.local_queue) AS value
    FROM kinds AS e
    CROSS JOIN dim.tenant_rule AS t
  ) AS k
  WHERE tenant_rule_matches(k.value, k.like_pattern)
  GROUP BY k.namespace, k.workload_name, k.local_queue
)
SELECT
  d.demand_no, d.cluster, d.demand_id, d.demand_kind, d.namespace, d.name, d.queue, d.local_queue, d.workload_kind, d.workload_name,
  coalesce(d.tenant, t.tenant, 'unmapped') AS tenant,
  coalesce(a.person, c.person, x.person) AS person,
  CASE WHEN a.person IS NOT NULL THEN 'annotation' WHEN c.person IS NOT NULL THEN 'creator' WHEN x.person IS NOT NULL THEN 'contact' END AS person_basis,
  d.priority, d.gpu_milli, d.pods_count, d.least_count, d.created_at, d.ended_at, d.end_kind, d.first_seen_at, d.last_seen_at, d.scheduler,
  d.phase, d.attempts, d.pods_seen_count, d.evictions_count, d.evictions_first_count, d.past_run_us, d.whole_seen_at, d.last_word_at, d.inactive_at, d.is_gated,
  d.is_kueue_pod, d.lacks_workload
FROM demands AS d
LEFT JOIN annotated AS a ON a.cluster = d.cluster AND a.demand_id = d.demand_id
LEFT JOIN creators AS c ON c.cluster = d.cluster AND c.demand_id = d.demand_id
LEFT JOIN dim.namespace_contact AS x ON x.namespace = d.namespace AND coalesce(x.cluster = d.cluster, TRUE)
LEFT JOIN tenants AS t
  ON d.demand_kind <> 'pod' AND t.namespace = d.namespace AND coalesce(t.local_queue, '') = coalesce(d.local_queue, '')
  AND t.workload_name = CASE WHEN (SELECT by_workload FROM naming) THEN d.workload_name ELSE '' END
