-- The changes of each demand in one vocabulary (definitions/queue_wait.py), each once. One change is told by the object's condition, by a status patch in the
-- audit log (the same stamp) and by an event: all are kept to the second, as conditions are; the best evidence names it. An event that comes
-- within a second of what a condition tells is that change. `follows`: the step before it, NULL = none.
-- basis `watch`: the change has no stamp, `at` is when it was first seen so, a bound.
WITH names AS (
  SELECT cluster, namespace, name, object_uid, created_at FROM dim.gang WHERE object_kind = 'Workload'
),
unnamed AS (
  SELECT DISTINCT cluster, object_uid, namespace, object_name, occurred_at
  FROM fact.transition
  WHERE object_kind = 'Workload' AND starts_with(object_uid, 'name:')
),
called AS (
  SELECT u.cluster, u.object_uid AS name_uid, u.occurred_at, arg_max(n.object_uid, n.created_at) AS object_uid
  FROM unnamed AS u
  JOIN names AS n ON n.cluster = u.cluster AND n.namespace = u.namespace AND n.name = u.object_name
  WHERE coalesce(n.created_at <= u.occurred_at, TRUE)
  GROUP BY u.cluster, u.object_uid, u.occurred_at
),
-- 0 created, 1 evicted, 2 released, 3 backoff_until, 4 ungated, 5 reserved, 6 admitted, 7 scheduled, 8 running, 9 finished, 10 abandoned:
-- the order of steps that share an instant. Basis: 0 object, 1 audit, 2 trace, 3 event, 4 watch.
conditions AS (
  SELECT
    t.cluster, t.object_uid, t.occurred_at, t.reason,
    CASE
      WHEN t.item = 'QuotaReserved' AND t.value = 'True' THEN 5
      WHEN t.item = 'QuotaReserved' AND t.value = 'False' THEN 2
      WHEN t.value <> 'True' THEN NULL
      WHEN t.item = 'Evicted' THEN 1
      WHEN t.item = 'Admitted' THEN 6
      WHEN t.item = 'PodsReady' THEN 8
      WHEN t.item = 'Finished' THEN 9
    END AS step_no,
    CASE WHEN t.time_basis = 'observed' THEN 4 WHEN t.source = 'audit_log' THEN 1 ELSE 0 END AS basis_no
  FROM fact.transition AS t
  WHERE t.object_kind = 'Workload' AND t.object_group = 'kueue.x-k8s.io' AND t.aspect = 'condition'
),
stamped AS (
  SELECT
    c.cluster, CASE WHEN starts_with(c.object_uid, 'name:') THEN coalesce(n.object_uid, c.object_uid) ELSE c.object_uid END AS demand_id,
    c.occurred_at AS step_at, c.step_no, c.basis_no, CASE WHEN c.step_no = 1 THEN c.reason END AS reason
  FROM conditions AS c
  LEFT JOIN called AS n ON n.cluster = c.cluster AND n.name_uid = c.object_uid AND n.occurred_at = c.occurred_at
  WHERE c.step_no IS NOT NULL
  UNION ALL
  SELECT cluster, object_uid, created_at, 0, 0, NULL FROM dim.gang WHERE created_at IS NOT NULL
  UNION ALL
  SELECT cluster, object_uid, finished_at, 9, 0, NULL FROM dim.gang WHERE finished_at IS NOT NULL
  UNION ALL
  SELECT cluster, object_uid, gone_at, 10, 0, NULL FROM dim.gang WHERE gone_at IS NOT NULL
  UNION ALL
  SELECT cluster, object_uid, inactive_at, 10, 4, NULL FROM dim.gang WHERE inactive_at IS NOT NULL
  UNION ALL
  SELECT cluster, object_uid, requeue_at, 3, 0, NULL FROM fact.gang WHERE requeue_at IS NOT NULL AND object_kind = 'Workload'
  UNION ALL
  SELECT
    cluster, object_uid, occurred_at, CASE WHEN value = 'Running' THEN 8 ELSE 9 END, CASE WHEN time_basis = 'observed' THEN 4 ELSE 0 END, NULL
  FROM fact.transition
  WHERE aspect = 'phase'
    AND (
      object_kind = 'Job' AND object_group = 'batch.volcano.sh' AND value IN ('Running', 'Completed', 'Failed', 'Terminated', 'Aborted')
      OR object_kind = 'PodGroup' AND object_group = 'scheduling.volcano.sh' AND value IN ('Running', 'Completed')
    )
),
stated AS (
  SELECT cluster, demand_id, date_trunc('second', step_at) AS step_at, step_no, min(basis_no) AS basis_no, max(reason) AS reason
  FROM stamped
  GROUP BY ALL
),
heard AS (
  SELECT
    d.cluster, coalesce(g.object_uid, n.object_uid, d.subject_uid) AS demand_id, date_trunc('second', d.occurred_at) AS step_at,
    CASE d.verdict WHEN 'reserved' THEN 5 WHEN 'admitted' THEN 6 ELSE 1 END AS step_no,
    3 AS basis_no,
    max(CASE WHEN d.verdict = 'deactivated' OR contains(d.reason, 'Deactivated') THEN 'Deactivated' WHEN d.verdict = 'evicted' THEN d.reason END)
      AS reason
  FROM fact.decision AS d
  LEFT JOIN names AS g ON g.cluster = d.cluster AND g.object_uid = d.subject_uid
  LEFT JOIN names AS n ON n.cluster = d.cluster AND n.namespace = d.namespace AND n.name = d.subject_name
  WHERE d.subject_kind = 'Workload' AND d.evidence = 'event' AND d.verdict IN ('reserved', 'admitted', 'evicted', 'deactivated')
    AND coalesce(g.object_uid, n.object_uid, d.subject_uid) IS NOT NULL
  GROUP BY ALL
),
told AS (
  SELECT * FROM stated
  UNION ALL
  SELECT h.*
  FROM heard AS h
  WHERE NOT EXISTS (
    SELECT 1
    FROM stated AS s
    WHERE s.cluster = h.cluster AND s.demand_id = h.demand_id AND s.step_no = h.step_no
      AND h.step_at BETWEEN s.step_at - INTERVAL 1 SECOND AND s.step_at + INTERVAL 1 SECOND
  )
),
ordered AS (
  SELECT *, lag(step_no) OVER (PARTITION BY cluster, demand_id ORDER BY step_at, step_no) AS follows_no FROM told
),
-- QuotaReserved=False before anything was reserved is the first refusal, and its stamp stays: no release. A second PodsReady is a recovery.
gangs AS (
  SELECT cluster, demand_id, step_at, step_no, basis_no, reason, follows_no
  FROM ordered
  WHERE CASE step_no
    WHEN 1 THEN coalesce(follows_no NOT IN (1, 9, 10), TRUE)
    WHEN 2 THEN coalesce(follows_no > 0, FALSE)
    WHEN 3 THEN coalesce(follows_no = 2, FALSE)
    WHEN 6 THEN coalesce(follows_no <> 6, TRUE)
    WHEN 8 THEN coalesce(follows_no NOT IN (8, 9), TRUE)
    WHEN 9 THEN coalesce(follows_no NOT IN (9, 10), TRUE)
    WHEN 10 THEN coalesce(follows_no NOT IN (9, 10), TRUE)
    ELSE TRUE
  END
),
-- A gang is placed when as many of its pods are as it needs, after each admission (Kueue), or once (a PodGroup alone).
placed AS (
  SELECT m.cluster, m.demand_id, m.demand_kind, p.scheduled_at
  FROM dim.demand_pod AS m
  JOIN dim.pod_life AS p ON p.cluster = m.cluster AND p.pod_uid = m.pod_uid
  JOIN dim.gang AS g ON g.cluster = m.cluster AND g.object_uid = m.demand_id AND g.object_kind <> 'Job'
  WHERE m.demand_kind <> 'pod' AND p.scheduled_at IS NOT NULL
),
admissions AS (
  SELECT cluster, demand_id, step_at FROM gangs WHERE step_no IN (0, 6)
),
rounds AS (
  SELECT p.cluster, p.demand_id, p.scheduled_at, a.step_at AS admitted_at
  FROM placed AS p
  ASOF JOIN admissions AS a ON a.cluster = p.cluster AND a.demand_id = p.demand_id AND p.scheduled_at >= a.step_at
),
enough AS (
  SELECT r.cluster, r.demand_id, r.scheduled_at
  FROM rounds AS r
  JOIN dim.demand AS d ON d.cluster = r.cluster AND d.demand_id = r.demand_id
  QUALIFY row_number() OVER (PARTITION BY r.cluster, r.demand_id, r.admitted_at ORDER BY r.scheduled_at) = coalesce(d.least_count, 1)
),
ungated AS (
  SELECT t.cluster, t.object_uid AS pod_uid, min(t.observed_at) AS ungated_at
  FROM fact.transition AS t
  WHERE t.object_kind = 'Pod' AND t.aspect = 'condition' AND t.item = 'PodScheduled' AND t.value = 'False'
    AND t.reason <> 'SchedulingGated'
  GROUP BY t.cluster, t.object_uid
),
traces AS (SELECT DISTINCT cluster, source FROM fact.source_status WHERE kind = 'trace'),
pods AS (
  SELECT
    m.cluster, m.demand_id, p.pod_uid, p.created_at,
    CASE WHEN d.is_gated THEN u.ungated_at END AS ungated_at,
    coalesce(stamp_after_creation(p.created_at, p.scheduled_at), p.started_at, p.first_container_at, p.bound_seen_at) AS scheduled_at,
    stamp_after_creation(p.created_at, p.scheduled_at) IS NOT NULL AS is_stamped,
    p.first_container_at,
    coalesce(p.last_container_end_at, CASE WHEN p.terminal THEN p.terminal_seen_at END) AS finished_at,
    CASE WHEN t.source IS NOT NULL THEN p.deletion_at ELSE coalesce(p.deleted_at, CASE WHEN p.gone_by_at IS NOT NULL THEN p.last_seen_at END) END
      AS gone_at,
    CASE WHEN t.source IS NOT NULL THEN 2 ELSE 0 END AS basis_no
  FROM dim.demand_pod AS m
  JOIN dim.pod_life AS p ON p.cluster = m.cluster AND p.pod_uid = m.pod_uid
  JOIN dim.demand AS d ON d.cluster = m.cluster AND d.demand_id = m.demand_id
  LEFT JOIN ungated AS u ON u.cluster = p.cluster AND u.pod_uid = p.pod_uid
  LEFT JOIN traces AS t ON t.cluster = p.cluster AND t.source = p.source
  WHERE m.demand_kind = 'pod'
),
pod_steps AS (
  SELECT cluster, demand_id, pod_uid, created_at AS step_at, 0 AS step_no, basis_no FROM pods WHERE created_at IS NOT NULL
  UNION ALL
  SELECT cluster, demand_id, pod_uid, ungated_at, 4, 4 FROM pods WHERE ungated_at < coalesce(scheduled_at, TIMESTAMP '9999-12-31')
  UNION ALL
  SELECT cluster, demand_id, pod_uid, scheduled_at, 7, CASE WHEN is_stamped THEN basis_no ELSE 4 END FROM pods WHERE scheduled_at IS NOT NULL
  UNION ALL
  SELECT cluster, demand_id, pod_uid, first_container_at, 8, basis_no FROM pods WHERE first_container_at >= scheduled_at
  UNION ALL
  SELECT cluster, demand_id, pod_uid, finished_at, 9, basis_no FROM pods WHERE finished_at IS NOT NULL
  UNION ALL
  SELECT cluster, demand_id, pod_uid, gone_at, 10, basis_no FROM pods WHERE gone_at IS NOT NULL AND finished_at IS NULL
),
numbered AS (
  SELECT cluster, demand_id, step_at, step_no, basis_no, reason, follows_no, CAST(NULL AS VARCHAR) AS pod_uid FROM gangs
  UNION ALL
  SELECT cluster, demand_id, scheduled_at, 7, 0, NULL, NULL, NULL FROM enough
  UNION ALL
  SELECT
    cluster, demand_id, step_at, step_no, basis_no, NULL, lag(step_no) OVER (PARTITION BY cluster, pod_uid ORDER BY step_no), pod_uid
  FROM pod_steps
)
SELECT
  cluster, demand_id, step_at AS "at",
  ['created', 'evicted', 'released', 'backoff_until', 'ungated', 'reserved', 'admitted', 'scheduled', 'running', 'finished', 'abandoned'][step_no + 1] AS step,
  ['object', 'audit', 'trace', 'event', 'watch'][basis_no + 1] AS basis,
  reason,
  ['created', 'evicted', 'released', 'backoff_until', 'ungated', 'reserved', 'admitted', 'scheduled', 'running', 'finished', 'abandoned'][follows_no + 1] AS follows,
  step_no, basis_no, pod_uid
FROM numbered
