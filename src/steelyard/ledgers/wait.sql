-- What each demand waited for, from when to when: each step starts a stage that the next one ends (see wait.py).
WITH stepped AS (
  SELECT
    demand_no, "at" AS step_at, step_no, basis_no, follows_no,
    is_deactivation OR coalesce(follows_no = 1 AND lag(is_deactivation) OVER demand_steps, FALSE) AS is_deactivated,
    lead(step_no) OVER demand_steps AS next_no,
    lead("at") OVER demand_steps AS next_at,
    lead(basis_no) OVER demand_steps AS next_basis_no,
    lead(step_no, 2) OVER demand_steps AS after_no,
    lead(is_deactivation) OVER demand_steps AS next_deactivates,
    sum(CASE WHEN step_no IN (0, 2) THEN 1 ELSE 0 END) OVER (
      PARTITION BY demand_no ORDER BY "at", step_no, pod_uid ROWS UNBOUNDED PRECEDING
    ) AS waits_count
  FROM dim.demand_step
  WINDOW demand_steps AS (PARTITION BY demand_no ORDER BY "at", step_no, pod_uid)
),
-- How many evictions are among the steps, before the demand was first seen and after.
seen AS (
  SELECT
    s.demand_no, count(*) FILTER (WHERE s."at" <= d.first_seen_at) AS before_count, count(*) FILTER (WHERE s."at" > d.first_seen_at) AS after_count
  FROM dim.demand_step AS s
  JOIN dim.demand AS d ON d.demand_no = s.demand_no AND d.evictions_count > 0
  WHERE s.step_no = 1 OR (s.step_no = 2 AND s.follows_no <> 1) OR (s.step_no = 5 AND s.follows_no = 5)
  GROUP BY s.demand_no
),
-- Where the absence of pods is known: a pod group that may have pods and is left without any keeps quota, and waits for nothing.
pods_listed AS (
  SELECT DISTINCT cluster FROM fact.source_status WHERE kind = 'pods' AND complete AND status = 'ok'
),
staged AS (
  SELECT
    s.*, d.cluster, d.demand_id, d.demand_kind, d.namespace, d.queue, d.gpu_milli, d.last_seen_at, d.past_run_us, d.created_at IS NULL AS is_creation_lost,
    greatest(s.waits_count - 1, 0) AS segment,
    CASE
      WHEN d.evictions_count <= coalesce(l.before_count, 0) + coalesce(l.after_count, 0) THEN FALSE
      WHEN d.evictions_count - d.evictions_first_count > coalesce(l.after_count, 0) THEN TRUE
      WHEN d.evictions_first_count > coalesce(l.before_count, 0) THEN s.step_at < d.first_seen_at
      ELSE FALSE
    END AS is_lossy,
    d.demand_kind = 'pod_group' AND d.phase = 'Inqueue' AND d.pods_seen_count = 0 AND d.cluster IN (SELECT cluster FROM pods_listed)
      AND epoch_us(d.last_seen_at) - epoch_us(s.step_at) > (SELECT leak_grace_us FROM dim.parameter) AS is_stale,
    d.demand_kind = 'pod_group' AND coalesce(s.next_at > d.whole_seen_at, d.whole_seen_at IS DISTINCT FROM d.last_word_at) AS is_restarted,
    CASE s.step_no
      WHEN 0 THEN
        CASE WHEN d.demand_kind <> 'pod' THEN 'queue' WHEN d.is_gated THEN 'gate' WHEN d.is_kueue_pod THEN 'queue' ELSE 'scheduler' END
      WHEN 1 THEN
        CASE
          WHEN s.next_no = 2 OR (s.next_no IS NULL AND s.follows_no IN (5, 6, 8)) THEN 'release_lag'
          WHEN s.next_no = 5 THEN 'queue'
        END
      WHEN 2 THEN
        CASE
          WHEN s.is_deactivated AND s.next_no IS DISTINCT FROM 5 THEN NULL
          WHEN s.next_no = 3 THEN 'backoff'
          ELSE 'queue'
        END
      WHEN 3 THEN 'queue'
      WHEN 4 THEN 'scheduler'
      WHEN 5 THEN
        CASE
          WHEN s.next_no = 5 THEN 'queue'
          WHEN s.next_no = 6 AND s.next_at > s.step_at THEN 'admission_check'
          WHEN s.next_no IS NULL AND d.phase = 'reserved' THEN 'admission_check'
        END
      WHEN 6 THEN
        CASE
          WHEN s.next_no IN (4, 7) AND s.next_at > s.step_at THEN CASE WHEN d.is_gated THEN 'gate' ELSE 'scheduler' END
          WHEN s.next_no = 8 AND s.next_at > s.step_at THEN 'starting'
          WHEN s.next_no IS NULL AND d.pods_seen_count > 0 AND d.phase = 'admitted' THEN CASE WHEN d.is_gated THEN 'gate' ELSE 'scheduler' END
        END
      WHEN 7 THEN
        CASE
          WHEN s.next_no = 8 AND s.next_at > s.step_at THEN 'starting'
          WHEN s.next_no IS NULL AND d.demand_kind = 'pod' AND d.phase = 'Pending' THEN 'starting'
        END
    END AS stage
  FROM stepped AS s
  JOIN dim.demand AS d ON d.demand_no = s.demand_no
  LEFT JOIN seen AS l ON l.demand_no = s.demand_no
  WHERE s.step_no < 8
),
judged AS (
  SELECT
    *,
    CASE WHEN next_no = 3 AND next_at > last_seen_at THEN NULL ELSE next_at END AS ended_at,
    CASE
      WHEN next_no IS NULL OR (next_no = 3 AND next_at > last_seen_at) THEN NULL
      WHEN next_no >= 9 THEN 'abandoned'
      WHEN demand_kind = 'pod' AND stage IN ('queue', 'gate', 'scheduler') AND next_no = 8 THEN 'scheduled'
      WHEN demand_kind = 'workload' AND stage = 'queue' AND (next_no <> 1 OR after_no = 2 OR NOT next_deactivates) THEN 'reserved'
      WHEN next_no = 1 THEN 'evicted'
      WHEN next_no = 2 THEN 'released'
      WHEN next_no = 3 THEN 'requeued'
      WHEN next_no = 4 THEN 'ungated'
      WHEN next_no = 5 THEN 'reserved'
      WHEN next_no = 6 THEN 'admitted'
      WHEN next_no = 7 THEN 'scheduled'
      WHEN next_no = 8 THEN 'running'
    END AS ended_by,
    CASE
      WHEN stage = 'queue' AND demand_kind = 'pod' THEN 'workload_not_seen'
      WHEN stage = 'queue' AND demand_kind = 'pod_group' AND is_restarted THEN 'restarted'
      WHEN stage = 'queue' AND demand_kind = 'pod_group' THEN CASE WHEN next_no IN (7, 8) AND next_basis_no = 4 THEN 'end_not_stamped' END
      WHEN stage = 'queue' THEN
        CASE
          WHEN next_no = 5 AND next_basis_no = 4 THEN 'end_not_stamped'
          WHEN step_no = 0 AND is_creation_lost THEN 'creation_not_seen'
          WHEN is_deactivated THEN 'reactivation_not_seen'
          WHEN step_no IN (1, 5) THEN 'release_not_seen'
          WHEN next_no IN (2, 6, 7, 8) OR (next_no = 1 AND (after_no = 2 OR NOT next_deactivates)) THEN 'reservation_not_seen'
          WHEN is_lossy AND next_no IS NOT NULL THEN 'evictions_not_seen'
        END
      WHEN stage = 'starting' AND next_basis_no = 4 THEN CASE WHEN demand_kind = 'pod' THEN 'restarted' ELSE 'end_not_stamped' END
      WHEN stage = 'gate' AND next_no IN (7, 8) THEN 'gate_not_seen'
      WHEN stage IN ('gate', 'scheduler') AND (next_no = 8 OR next_basis_no = 4 OR basis_no = 4) THEN 'end_not_stamped'
    END AS unknown_reason
  FROM staged
  WHERE stage IS NOT NULL AND NOT (step_no = 3 AND step_at > last_seen_at) AND NOT (stage = 'queue' AND is_stale)
),
-- What a run took is no part of the waits before the stamp that is left of them: their bound is shorter by it.
bounded AS (
  SELECT
    * EXCLUDE (ended_at),
    CASE
      WHEN unknown_reason IN ('evictions_not_seen', 'reservation_not_seen') AND step_no = 0 AND past_run_us > 0
        THEN greatest(step_at, ended_at - to_microseconds(past_run_us))
      ELSE ended_at
    END AS ended_at,
    coalesce(ended_at, greatest(last_seen_at, step_at)) AS known_to_at
  FROM judged
),
-- What deciders said while a demand was refused; of its pods, where they wait for a scheduler. The last word within a stage explains it.
words AS (
  SELECT d.demand_no, w.subject_kind = 'Pod' AS of_pods, w.occurred_at AS said_at, max(w.cause) AS cause, arg_max(w.verdict, coalesce(w.cause, '')) AS verdict
  FROM fact.decision AS w
  LEFT JOIN dim.demand_pod AS m ON m.cluster = w.cluster AND m.pod_uid = w.subject_uid AND w.subject_kind = 'Pod'
  LEFT JOIN dim.gang AS g ON g.cluster = w.cluster AND g.object_uid = w.subject_uid AND g.object_kind = 'PodGroup'
  LEFT JOIN dim.demand AS n
    ON n.cluster = w.cluster AND n.namespace = w.namespace AND n.name = w.subject_name
    AND n.demand_kind = CASE w.subject_kind WHEN 'Workload' THEN 'workload' WHEN 'Pod' THEN 'pod' ELSE 'pod_group' END
  JOIN dim.demand AS d
    ON d.cluster = w.cluster AND d.demand_id IN (m.demand_id, w.subject_uid, g.owner_uid, n.demand_id)
  WHERE w.verdict IN ('not_now', 'never_fits', 'misconfigured')
  GROUP BY ALL
),
refused AS (
  SELECT *, demand_kind = 'pod' OR stage IN ('gate', 'scheduler') AS of_pods
  FROM bounded
  WHERE stage IN ('queue', 'gate', 'scheduler') AND demand_no IN (SELECT demand_no FROM words)
),
explanations AS (
  SELECT r.demand_no, r.step_at, r.stage, w.cause, w.verdict
  FROM refused AS r
  ASOF JOIN words AS w ON w.demand_no = r.demand_no AND w.of_pods = r.of_pods AND r.known_to_at >= w.said_at
  WHERE w.said_at >= r.step_at
)
SELECT
  b.cluster, b.demand_id, b.demand_kind, b.namespace, b.queue, b.segment, b.stage, b.step_at AS started_at, b.ended_at, b.known_to_at, b.ended_by,
  CASE WHEN q.fit = 'never_fits' THEN 'quota' WHEN f.demand_id IS NOT NULL THEN 'capacity' WHEN w.verdict <> 'misconfigured' THEN w.cause END AS cause,
  coalesce(q.fit, CASE WHEN f.demand_id IS NOT NULL THEN 'never_fits' END, CASE WHEN w.verdict <> 'misconfigured' THEN w.verdict END) AS fit,
  b.gpu_milli,
  CASE b.basis_no WHEN 0 THEN 'object' WHEN 1 THEN 'audit' WHEN 2 THEN 'trace' WHEN 3 THEN 'event' ELSE 'watch' END AS basis,
  b.unknown_reason
FROM bounded AS b
LEFT JOIN explanations AS w ON w.demand_no = b.demand_no AND w.step_at = b.step_at AND w.stage = b.stage
LEFT JOIN dim.quota_fit AS q ON q.cluster = b.cluster AND q.demand_id = b.demand_id AND b.stage = 'queue' AND b.ended_at IS NULL
LEFT JOIN dim.node_fit AS f ON f.cluster = b.cluster AND f.demand_id = b.demand_id AND b.stage = 'scheduler' AND b.ended_at IS NULL
WHERE NOT (b.stage = 'queue' AND b.ended_at IS NULL AND coalesce(w.verdict = 'misconfigured', FALSE))
