-- One row per preemption, of the several words that tell of it (the victim's condition, both events, the audit log): words about one demand that are
-- at most five seconds apart are one; a word whose instant is only a bound (`before`) belongs to the last one that is dated, or stands alone.
-- A preemptor that is known as a demand is believed before one that is only named, that before a uid that nothing has. pods_count: victims' pods that
-- were named (0 = the demand as a whole). preemptor_uids_count: more than one, and the words contradict each other.
WITH words AS (
  SELECT
    p.cluster, p.occurred_at, p.time_basis, p.evidence, p.decided_by, p.cause, p.victim_kind, p.victim_uid, p.victim_namespace, p.victim_name,
    p.victim_queue, p.victim_priority, p.preemptor_kind, p.preemptor_uid, p.preemptor_namespace, p.preemptor_name, p.preemptor_queue,
    p.preemptor_priority, p.node,
    coalesce(m.demand_id, d.demand_id, j.demand_id, n.demand_id, a.demand_id, u.demand_id) AS victim_demand_id,
    coalesce(pm.demand_id, pd.demand_id, pn.demand_id) AS preemptor_demand_id
  FROM fact.preemption AS p
  LEFT JOIN dim.demand_pod AS m ON m.cluster = p.cluster AND m.pod_uid = p.victim_uid
  LEFT JOIN dim.demand AS d ON d.cluster = p.cluster AND d.demand_id = p.victim_uid
  LEFT JOIN dim.gang AS g ON g.cluster = p.cluster AND g.object_uid = p.victim_uid AND g.object_kind = 'PodGroup'
  LEFT JOIN dim.demand AS j ON j.cluster = p.cluster AND j.demand_id = g.owner_uid
  LEFT JOIN dim.demand AS n
    ON n.cluster = p.cluster AND n.namespace = p.victim_namespace AND n.name = p.victim_name AND p.victim_kind = 'Workload' AND n.demand_kind = 'workload'
  LEFT JOIN (
    SELECT l.cluster, l.namespace, l.pod, max(q.demand_id) AS demand_id
    FROM dim.pod_life AS l
    JOIN dim.demand_pod AS q ON q.cluster = l.cluster AND q.pod_uid = l.pod_uid
    GROUP BY l.cluster, l.namespace, l.pod
    HAVING count(DISTINCT q.demand_id) = 1
  ) AS a ON a.cluster = p.cluster AND a.namespace = p.victim_namespace AND a.pod = p.victim_name AND p.victim_kind = 'Pod' AND p.victim_uid IS NULL
  LEFT JOIN dim.demand AS u -- a PodGroup is called after its job, whether it was seen or not
    ON u.cluster = p.cluster AND u.demand_id = right(p.victim_name, 36) AND p.victim_kind = 'PodGroup' AND u.demand_kind = 'pod_group'
  LEFT JOIN dim.demand_pod AS pm ON pm.cluster = p.cluster AND pm.pod_uid = p.preemptor_uid
  LEFT JOIN dim.demand AS pd ON pd.cluster = p.cluster AND pd.demand_id = p.preemptor_uid
  LEFT JOIN dim.demand AS pn
    ON pn.cluster = p.cluster AND pn.namespace = p.preemptor_namespace AND pn.name = p.preemptor_name
    AND pn.demand_kind = CASE p.preemptor_kind WHEN 'Workload' THEN 'workload' WHEN 'Pod' THEN 'pod' ELSE 'pod_group' END
),
keyed AS (
  SELECT
    *, coalesce(victim_demand_id, victim_uid, victim_kind || '/' || victim_namespace || '/' || victim_name) AS victim_key,
    lag(occurred_at) OVER (PARTITION BY cluster, coalesce(victim_demand_id, victim_uid, victim_kind || '/' || victim_namespace || '/' || victim_name)
      ORDER BY occurred_at) AS word_before_at
  FROM words
  WHERE time_basis <> 'before'
),
dated AS (
  SELECT
    * EXCLUDE (word_before_at),
    count(*) FILTER (WHERE word_before_at IS NULL OR occurred_at > word_before_at + INTERVAL 5 SECOND) OVER (
      PARTITION BY cluster, victim_key ORDER BY occurred_at RANGE UNBOUNDED PRECEDING
    ) AS preemption_no
  FROM keyed
),
starts AS (SELECT cluster, victim_key, preemption_no, min(occurred_at) AS started_at FROM dated GROUP BY ALL),
bounds AS (
  SELECT *, coalesce(victim_demand_id, victim_uid, victim_kind || '/' || victim_namespace || '/' || victim_name) AS victim_key
  FROM words
  WHERE time_basis = 'before'
),
placed AS (
  SELECT * FROM dated
  UNION ALL
  SELECT b.*, coalesce(s.preemption_no, 0)
  FROM bounds AS b
  ASOF LEFT JOIN starts AS s ON s.cluster = b.cluster AND s.victim_key = b.victim_key AND b.occurred_at >= s.started_at
),
ranked AS (
  SELECT
    *,
    CASE WHEN preemptor_demand_id IS NOT NULL THEN 3 WHEN preemptor_name IS NOT NULL THEN 2 WHEN preemptor_uid IS NOT NULL THEN 1 ELSE 0 END AS strength
  FROM placed
)
SELECT
  r.cluster, min(r.occurred_at) AS preempted_at, CASE WHEN bool_or(r.time_basis <> 'before') THEN 'stated' ELSE 'before' END AS time_basis,
  min(r.decided_by) AS decided_by, coalesce(max(r.cause) FILTER (WHERE r.cause <> 'unknown'), 'unknown') AS cause,
  any_value(r.victim_demand_id) AS victim_demand_id, min(r.victim_kind) AS victim_kind, min(r.victim_namespace) AS victim_namespace,
  min(r.victim_name) AS victim_name, coalesce(max(r.victim_queue), any_value(v.queue)) AS victim_queue,
  coalesce(max(r.victim_priority), any_value(v.priority)) AS victim_priority, any_value(v.gpu_milli) AS victim_gpu_milli,
  any_value(v.tenant) AS victim_tenant,
  count(DISTINCT CASE WHEN r.victim_kind = 'Pod' THEN coalesce(r.victim_name, r.victim_uid) END) AS pods_count,
  arg_max(r.preemptor_demand_id, r.belief) FILTER (WHERE r.strength > 0) AS preemptor_demand_id,
  arg_max(r.preemptor_uid, r.belief) FILTER (WHERE r.strength > 0) AS preemptor_uid,
  coalesce(arg_max(t.namespace, r.belief), arg_max(r.preemptor_namespace, r.belief)) AS preemptor_namespace,
  coalesce(arg_max(t.name, r.belief), arg_max(r.preemptor_name, r.belief)) AS preemptor_name,
  coalesce(arg_max(t.queue, r.belief), max(r.preemptor_queue)) AS preemptor_queue,
  coalesce(max(r.preemptor_priority), arg_max(t.priority, r.belief)) AS preemptor_priority,
  arg_max(t.tenant, r.belief) AS preemptor_tenant, max(r.node) AS node,
  count(DISTINCT r.preemptor_uid) AS preemptor_uids_count,
  string_agg(DISTINCT r.evidence, ', ' ORDER BY r.evidence) AS evidence, count(*) AS words_count
FROM (SELECT *, (strength, coalesce(preemptor_demand_id, ''), coalesce(preemptor_uid, ''), evidence) AS belief FROM ranked) AS r
LEFT JOIN dim.demand AS v ON v.cluster = r.cluster AND v.demand_id = r.victim_demand_id
LEFT JOIN dim.demand AS t ON t.cluster = r.cluster AND t.demand_id = r.preemptor_demand_id
GROUP BY r.cluster, r.victim_key, r.preemption_no
