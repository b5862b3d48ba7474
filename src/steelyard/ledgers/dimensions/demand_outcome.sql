-- How each demand ended, by its own word and by its pods; outcome NULL = it lives, or nobody tells. A job that a policy or an operator ended (`terminated`,
-- `aborted`) was preempted where a pod of it was; a pod that vanished while it ran has the outcome `vanished`. basis: `object` (its own word), `pods`.
-- attempts_count: pods under one name (a pod's retries) or, of a job, how often its controller says that it was started anew, plus one; NULL = not told.
-- `dim.outcome` has the names.
WITH ends AS (
  SELECT
    m.cluster, m.demand_id, l.pod_uid, coalesce(l.created_at, l.first_seen_at) AS born_at, l.outcome_by, l.outcome_cause,
    coalesce(l.last_container_end_at, l.gone_by_at, l.deleted_at, l.terminal_seen_at) AS ended_at,
    CASE
      WHEN l.outcome IN ('running', 'terminating', 'pending') AND coalesce(l.gone_by_at, l.deleted_at) IS NOT NULL THEN 'vanished'
      WHEN l.outcome IN ('running', 'terminating', 'pending') THEN NULL
      ELSE l.outcome
    END AS outcome
  FROM dim.demand_pod AS m
  JOIN dim.pod_life AS l ON l.cluster = m.cluster AND l.pod_uid = m.pod_uid
),
pods AS (
  SELECT
    cluster, demand_id, count(*) AS pods_count, arg_max(coalesce(outcome, ''), (born_at, pod_uid)) AS last_outcome,
    arg_max(coalesce(outcome_cause, ''), (born_at, pod_uid)) AS last_cause, arg_max(coalesce(outcome_by, ''), (born_at, pod_uid)) AS last_by,
    max(outcome_by) FILTER (WHERE outcome = 'preempted') AS preempted_by, max(outcome_cause) FILTER (WHERE outcome = 'preempted') AS preempted_cause,
    max(ended_at) AS ended_at,
    count(*) FILTER (WHERE outcome = 'succeeded') AS succeeded_count, count(*) FILTER (WHERE outcome = 'failed') AS failed_count,
    count(*) FILTER (WHERE outcome = 'preempted') AS preempted_count, count(*) FILTER (WHERE outcome = 'evicted') AS evicted_count
  FROM ends
  GROUP BY cluster, demand_id
)
SELECT
  d.demand_no,
  CASE
    WHEN d.demand_kind = 'pod' THEN nullif(p.last_outcome, '')
    WHEN g.outcome IN ('terminated', 'aborted') AND p.preempted_count > 0 THEN 'preempted'
    ELSE g.outcome
  END AS outcome,
  CASE WHEN d.demand_kind = 'pod' OR g.outcome IN ('terminated', 'aborted') AND p.preempted_count > 0 THEN 'pods' WHEN g.outcome IS NOT NULL THEN 'object' END
    AS basis,
  CASE WHEN d.demand_kind = 'pod' THEN nullif(p.last_by, '') WHEN p.preempted_count > 0 THEN p.preempted_by END AS outcome_by,
  CASE WHEN d.demand_kind = 'pod' THEN nullif(p.last_cause, '') WHEN p.preempted_count > 0 THEN p.preempted_cause END AS outcome_cause,
  coalesce(d.ended_at, p.ended_at) AS ended_at,
  CASE WHEN d.demand_kind = 'pod' THEN d.attempts ELSE g.retry_count + 1 END AS attempts_count,
  coalesce(p.pods_count, 0) AS pods_seen_count, coalesce(p.succeeded_count, 0) AS pods_succeeded_count, coalesce(p.failed_count, 0) AS pods_failed_count,
  coalesce(p.preempted_count, 0) AS pods_preempted_count, coalesce(p.evicted_count, 0) AS pods_evicted_count
FROM dim.demand AS d
LEFT JOIN dim.gang AS g ON g.rowid + 1 = d.demand_no AND d.demand_kind <> 'pod' -- as dim.demand numbers them
LEFT JOIN pods AS p ON p.cluster = d.cluster AND p.demand_id = d.demand_id
