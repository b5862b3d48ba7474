-- The changes of each demand in one vocabulary (definitions/queue_wait.py), each once. One change is told by the object's condition, by a status patch in the
-- audit log (the same stamp) and by an event: all are kept to the second, as conditions are; the best evidence names it. An event that comes
-- within a second of what a condition tells is that change. A stamp before the creation (clocks differ) is kept as a bound: not before it was created.
-- basis `watch`: the change has no stamp, or one after it was seen, and `at` is when it was first seen so, a bound. step_no, basis_no, follows_no (the step
-- before it; NULL = none) are 0 created, 1 evicted, 2 released, 3 backoff_until, 4 ungated, 5 reserved, 6 admitted, 7 scheduled, 8 running, 9 finished, 10 abandoned, which is
-- the order of steps that share an instant; and 0 object, 1 audit, 2 trace, 3 event, 4 watch. is_deactivation: of an eviction. `dim.step` has the names.
WITH gang_demands AS (
  SELECT demand_no, cluster, demand_id, demand_kind, namespace, name, created_at, ended_at, end_kind, inactive_at, phase
  FROM dim.demand
  WHERE demand_kind <> 'pod'
),
-- What each condition of a workload says, in numbers before anything is joined: words are what costs.
worded AS NOT MATERIALIZED (
  SELECT
    cluster, object_uid, object_group, namespace, object_name, occurred_at,
    date_trunc('second', CASE WHEN occurred_at > observed_at + INTERVAL 1 MINUTE THEN observed_at ELSE occurred_at END) AS step_at,
    CASE
      WHEN item = 'QuotaReserved' THEN CASE value WHEN 'True' THEN 5 WHEN 'False' THEN 2 END
      WHEN value <> 'True' THEN NULL
      WHEN item = 'Evicted' THEN 1
      WHEN item = 'Admitted' THEN 6
      WHEN item = 'PodsReady' THEN 8
      WHEN item = 'Finished' THEN 9
    END AS step_no,
    CASE
      WHEN time_basis = 'observed' OR occurred_at > observed_at + INTERVAL 1 MINUTE THEN 4
      WHEN source = 'audit_log' THEN 1
      ELSE 0
    END AS basis_no,
    item = 'Evicted' AND starts_with(reason, 'Deactivated') AS is_deactivation
  FROM fact.transition
  WHERE object_kind = 'Workload' AND aspect = 'condition'
),
-- Of a workload that is told of by its name alone: the one that had it then.
called AS (
  SELECT arg_max(d.demand_no, d.created_at) AS demand_no, w.step_at, w.step_no, w.basis_no, w.is_deactivation
  FROM worded AS w
  JOIN gang_demands AS d
    ON d.cluster = w.cluster AND d.namespace = w.namespace AND d.name = w.object_name AND d.demand_kind = 'workload'
    AND d.created_at <= w.occurred_at
  WHERE starts_with(w.object_uid, 'name:') AND w.step_no IS NOT NULL
  GROUP BY w.cluster, w.object_uid, w.occurred_at, w.step_at, w.step_no, w.basis_no, w.is_deactivation
),
stamped AS NOT MATERIALIZED (
  SELECT
    d.demand_no, greatest(w.step_at, date_trunc('second', d.created_at)) AS step_at, w.step_no,
    CASE WHEN w.step_at < date_trunc('second', d.created_at) THEN 4 ELSE w.basis_no END AS basis_no, w.is_deactivation
  FROM worded AS w
  JOIN gang_demands AS d ON d.cluster = w.cluster AND d.demand_id = w.object_uid
  WHERE w.object_group = 'kueue.x-k8s.io' AND w.step_no IS NOT NULL
  UNION ALL
  SELECT demand_no, step_at, step_no, basis_no, is_deactivation FROM called
),
heard AS (
  SELECT DISTINCT
    coalesce(g.demand_no, n.demand_no) AS demand_no, date_trunc('second', d.occurred_at) AS step_at,
    CASE d.verdict WHEN 'reserved' THEN 5 WHEN 'admitted' THEN 6 ELSE 1 END AS step_no,
    3 AS basis_no,
    d.verdict = 'deactivated' OR coalesce(contains(d.reason, 'Deactivated'), FALSE) AS is_deactivation,
    CASE
      WHEN coalesce(g.created_at, n.created_at) IS NULL AND d.verdict = 'reserved'
        THEN TRY_CAST(json_extract_string(d.details, '$.waited_claimed_seconds') AS INTEGER)
    END AS waited_seconds
  FROM fact.decision AS d
  LEFT JOIN gang_demands AS g ON g.cluster = d.cluster AND g.demand_id = d.subject_uid
  LEFT JOIN gang_demands AS n
    ON n.cluster = d.cluster AND n.namespace = d.namespace AND n.name = d.subject_name AND n.demand_kind = 'workload'
  WHERE d.subject_kind = 'Workload' AND d.evidence = 'event' AND d.verdict IN ('reserved', 'admitted', 'evicted', 'deactivated')
    AND coalesce(g.demand_no, n.demand_no) IS NOT NULL
),
near AS (
  SELECT h.demand_no, w.step_no, w.step_at
  FROM (
    SELECT DISTINCT d.demand_no, d.cluster, d.demand_id
    FROM heard
    JOIN gang_demands AS d ON d.demand_no = heard.demand_no
  ) AS h
  JOIN worded AS w ON w.cluster = h.cluster AND w.object_uid = h.demand_id
  WHERE w.object_group = 'kueue.x-k8s.io' AND w.step_no IS NOT NULL
  UNION ALL
  SELECT demand_no, step_no, step_at FROM called
),
told AS (
  SELECT * FROM stamped
  UNION ALL
  SELECT h.* EXCLUDE (waited_seconds)
  FROM heard AS h
  WHERE NOT EXISTS (
    SELECT 1
    FROM near AS s
    WHERE s.demand_no = h.demand_no AND s.step_no = h.step_no
      AND h.step_at BETWEEN s.step_at - INTERVAL 1 SECOND AND s.step_at + INTERVAL 1 SECOND
  )
  UNION ALL
  SELECT demand_no, created_at, 0, 0, FALSE FROM gang_demands WHERE created_at IS NOT NULL
  UNION ALL
  SELECT g.demand_no, min(h.step_at - to_seconds(coalesce(h.waited_seconds, 0))), 0, 3, FALSE
  FROM gang_demands AS g
  JOIN (
    SELECT d.demand_no, w.step_at, NULL AS waited_seconds
    FROM worded AS w
    JOIN gang_demands AS d ON d.cluster = w.cluster AND d.demand_id = w.object_uid AND d.created_at IS NULL
    WHERE w.object_group = 'kueue.x-k8s.io' AND w.step_no IS NOT NULL
    UNION ALL
    SELECT demand_no, step_at, waited_seconds FROM heard
  ) AS h ON h.demand_no = g.demand_no
  WHERE g.created_at IS NULL
  GROUP BY g.demand_no
  UNION ALL
  SELECT demand_no, date_trunc('second', greatest(ended_at, created_at)), CASE WHEN end_kind = 'finished' THEN 9 ELSE 10 END, 0, FALSE
  FROM gang_demands
  WHERE ended_at IS NOT NULL
  UNION ALL
  SELECT demand_no, inactive_at, 10, 4, FALSE FROM gang_demands WHERE inactive_at IS NOT NULL
  UNION ALL
  SELECT d.demand_no, g.requeue_at, 3, 0, FALSE
  FROM fact.gang AS g
  JOIN gang_demands AS d ON d.cluster = g.cluster AND d.demand_id = g.object_uid
  WHERE g.requeue_at IS NOT NULL AND g.object_kind = 'Workload'
  UNION ALL
  SELECT
    d.demand_no, date_trunc('second', greatest(t.occurred_at, d.created_at)), CASE WHEN t.value = 'Running' THEN 8 ELSE 9 END,
    CASE WHEN t.time_basis = 'observed' OR t.occurred_at < date_trunc('second', d.created_at) THEN 4 ELSE 0 END, FALSE
  FROM fact.transition AS t
  JOIN gang_demands AS d ON d.cluster = t.cluster AND d.demand_id = t.object_uid
  WHERE t.aspect = 'phase' AND (t.value <> 'Aborted' OR d.phase = 'Aborted') AND ( -- what was aborted and resumed goes on
    t.object_kind = 'Job' AND t.object_group = 'batch.volcano.sh' AND t.value IN ('Running', 'Completed', 'Failed', 'Terminated', 'Aborted')
    OR t.object_kind = 'PodGroup' AND t.object_group = 'scheduling.volcano.sh' AND t.value IN ('Running', 'Completed')
  )
),
ordered AS (
  SELECT
    demand_no, step_at, CAST(step_no AS TINYINT) AS step_no, CAST(basis_no AS TINYINT) AS basis_no, is_deactivation,
    lag(step_no) OVER demand_steps AS follows_no, lag(step_at) OVER demand_steps AS follows_at
  FROM told
  WINDOW demand_steps AS (PARTITION BY demand_no ORDER BY step_at, step_no, basis_no, is_deactivation DESC)
),
-- The same change told again says nothing new. QuotaReserved=False before anything was reserved is the first refusal, and its stamp stays: no release.
-- A second PodsReady is a recovery.
gangs AS (
  SELECT demand_no, step_at, step_no, basis_no, is_deactivation, CAST(follows_no AS TINYINT) AS follows_no
  FROM ordered
  WHERE NOT coalesce(follows_no = step_no AND follows_at = step_at, FALSE) AND CASE step_no
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
-- Held fast: left to itself, the engine may pair lives with demands by their cluster alone, every one with every other.
demanded AS MATERIALIZED (
  SELECT m.cluster, m.pod_uid, m.demand_kind, d.demand_no, d.least_count, d.workload_kind, d.is_gated
  FROM dim.demand_pod AS m
  JOIN dim.demand AS d ON d.cluster = m.cluster AND d.demand_id = m.demand_id
),
-- A gang is placed when as many of its pods are as it needs, after each admission (Kueue), or once (a PodGroup alone).
placed AS (
  SELECT d.demand_no, d.least_count, p.scheduled_at
  FROM demanded AS d
  JOIN dim.pod_life AS p ON p.cluster = d.cluster AND p.pod_uid = d.pod_uid
  WHERE d.demand_kind <> 'pod' AND d.workload_kind <> 'vcjob' AND p.scheduled_at IS NOT NULL
),
rounds AS (
  SELECT p.demand_no, p.least_count, p.scheduled_at, a.step_at AS admitted_at
  FROM placed AS p
  ASOF JOIN (SELECT demand_no, step_at FROM gangs WHERE step_no IN (0, 6) AND demand_no IN (SELECT demand_no FROM placed)) AS a
    ON a.demand_no = p.demand_no AND p.scheduled_at >= a.step_at
),
enough AS (
  SELECT demand_no, admitted_at, scheduled_at
  FROM rounds
  QUALIFY row_number() OVER (PARTITION BY demand_no, admitted_at ORDER BY scheduled_at) = coalesce(least_count, 1)
),
ungated AS (
  SELECT
    t.cluster, t.object_uid AS pod_uid, min(t.observed_at) FILTER (WHERE t.reason <> 'SchedulingGated') AS ungated_at,
    bool_or(t.reason = 'SchedulingGated') AS was_gated
  FROM fact.transition AS t
  WHERE t.object_kind = 'Pod' AND t.aspect = 'condition' AND t.item = 'PodScheduled' AND t.value = 'False'
  GROUP BY t.cluster, t.object_uid
),
-- The gate of a workload is open when as many of its pods as it needs are let go, after each admission, and before they are placed.
opening AS (
  SELECT d.demand_no, d.least_count, u.ungated_at
  FROM dim.demand_pod AS m
  JOIN ungated AS u ON u.cluster = m.cluster AND u.pod_uid = m.pod_uid AND u.was_gated AND u.ungated_at IS NOT NULL
  JOIN dim.demand AS d ON d.cluster = m.cluster AND d.demand_id = m.demand_id
  WHERE m.demand_kind = 'workload'
),
opened AS (
  SELECT o.demand_no, o.ungated_at
  FROM (
    SELECT p.demand_no, p.ungated_at, a.step_at AS admitted_at
    FROM opening AS p
    ASOF JOIN (SELECT demand_no, step_at FROM gangs WHERE step_no = 6 AND demand_no IN (SELECT demand_no FROM opening)) AS a
      ON a.demand_no = p.demand_no AND p.ungated_at >= a.step_at
    QUALIFY row_number() OVER (PARTITION BY p.demand_no, a.step_at ORDER BY p.ungated_at) = coalesce(p.least_count, 1)
  ) AS o
  LEFT JOIN enough AS e ON e.demand_no = o.demand_no AND e.admitted_at = o.admitted_at
  WHERE coalesce(o.ungated_at < e.scheduled_at, TRUE)
),
-- A status keeps the start of the present run of a container and of the one before: where each restarted more often, the first start is lost unless it was
-- seen before that, and the earliest that any sighting tells is a bound.
starts AS (
  SELECT r.cluster, r.pod_uid, min(r.first_container_at) AS first_at, bool_or(r.occurred_at < x.lost_at) AS is_first
  FROM (
    SELECT cluster, pod_uid, min(occurred_at) AS lost_at
    FROM (
      SELECT cluster, pod_uid, occurred_at
      FROM fact.container
      WHERE started_at IS NOT NULL OR restart_count > 0
      GROUP BY cluster, pod_uid, occurred_at
      HAVING min(restart_count) > 1
    ) AS lost
    GROUP BY cluster, pod_uid
  ) AS x
  JOIN fact.request AS r ON r.cluster = x.cluster AND r.pod_uid = x.pod_uid
  WHERE r.first_container_at IS NOT NULL
  GROUP BY r.cluster, r.pod_uid
),
traces AS (SELECT DISTINCT cluster, source FROM fact.source_status WHERE kind = 'trace'),
pods AS (
  SELECT
    d.demand_no, p.pod_uid, p.created_at,
    CASE WHEN d.is_gated THEN u.ungated_at END AS ungated_at,
    coalesce(
      stamp_after_creation(p.created_at, p.scheduled_at), p.started_at, p.first_container_at, p.bound_seen_at,
      CASE WHEN p.terminal AND p.node IS NOT NULL THEN coalesce(p.last_container_end_at, p.terminal_seen_at) END
    ) AS scheduled_at,
    stamp_after_creation(p.created_at, p.scheduled_at) IS NOT NULL AS is_stamped,
    coalesce(stamp_after_creation(p.created_at, s.first_at), p.first_container_at) AS first_container_at, coalesce(s.is_first, TRUE) AS is_first_start,
    coalesce(p.last_container_end_at, CASE WHEN p.rejected THEN p.started_at END, CASE WHEN p.terminal THEN p.terminal_seen_at END) AS finished_at,
    CASE WHEN t.source IS NOT NULL THEN p.deletion_at ELSE coalesce(p.deleted_at, CASE WHEN p.gone_by_at IS NOT NULL THEN p.last_seen_at END) END
      AS gone_at,
    CASE WHEN t.source IS NOT NULL THEN 2 ELSE 0 END AS basis_no
  FROM demanded AS d
  JOIN dim.pod_life AS p ON p.cluster = d.cluster AND p.pod_uid = d.pod_uid
  LEFT JOIN ungated AS u ON u.cluster = p.cluster AND u.pod_uid = p.pod_uid
  LEFT JOIN starts AS s ON s.cluster = p.cluster AND s.pod_uid = p.pod_uid
  LEFT JOIN traces AS t ON t.cluster = p.cluster AND t.source = p.source
  WHERE d.demand_kind = 'pod'
),
pod_steps AS (
  SELECT demand_no, pod_uid, created_at AS step_at, 0 AS step_no, basis_no FROM pods WHERE created_at IS NOT NULL
  UNION ALL
  SELECT demand_no, pod_uid, ungated_at, 4, 4 FROM pods WHERE ungated_at < coalesce(scheduled_at, TIMESTAMP '9999-12-31')
  UNION ALL
  SELECT demand_no, pod_uid, scheduled_at, 7, CASE WHEN is_stamped THEN basis_no ELSE 4 END FROM pods WHERE scheduled_at IS NOT NULL
  UNION ALL
  SELECT demand_no, pod_uid, first_container_at, 8, CASE WHEN is_first_start THEN basis_no ELSE 4 END FROM pods WHERE first_container_at >= scheduled_at
  UNION ALL
  SELECT demand_no, pod_uid, finished_at, 9, basis_no FROM pods WHERE finished_at IS NOT NULL
  UNION ALL
  SELECT demand_no, pod_uid, gone_at, 10, basis_no FROM pods WHERE gone_at IS NOT NULL AND finished_at IS NULL
),
numbered AS (
  SELECT demand_no, step_at, step_no, basis_no, is_deactivation, follows_no, CAST(NULL AS VARCHAR) AS pod_uid FROM gangs
  UNION ALL
  SELECT demand_no, scheduled_at, 7, 0, FALSE, NULL, NULL FROM enough
  UNION ALL
  SELECT demand_no, ungated_at, 4, 4, FALSE, NULL, NULL FROM opened
  UNION ALL
  SELECT demand_no, step_at, step_no, basis_no, FALSE, lag(step_no) OVER (PARTITION BY demand_no, pod_uid ORDER BY step_no), pod_uid
  FROM pod_steps
)
SELECT demand_no, step_at AS "at", step_no, basis_no, follows_no, is_deactivation, pod_uid
FROM numbered
