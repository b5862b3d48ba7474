-- What each demand waited for, from when to when: each step starts a stage that the next one ends (see wait.py).
WITH stepped AS (
  SELECT
    cluster, demand_id, "at" AS step_at, step, basis, follows, step_no,
    lag(reason) OVER demand_steps AS reason_before, reason,
    lead(step) OVER demand_steps AS next_step,
    lead("at") OVER demand_steps AS next_at,
    lead(basis_no) OVER demand_steps AS next_basis_no,
    lead(step, 2) OVER demand_steps AS step_after,
    CAST(sum(CASE WHEN step_no IN (0, 2) THEN 1 ELSE 0 END) OVER demand_steps AS BIGINT) AS waits_count
  FROM dim.step
  WINDOW demand_steps AS (PARTITION BY cluster, demand_id ORDER BY "at", step_no, pod_uid ROWS UNBOUNDED PRECEDING)
),
-- How many evictions are among the steps, before the demand was first seen and after.
seen AS (
  SELECT
    s.cluster, s.demand_id,
    d.evictions_first_count - count(*) FILTER (WHERE s."at" <= d.first_seen_at) AS lost_before,
    d.evictions_count - d.evictions_first_count - count(*) FILTER (WHERE s."at" > d.first_seen_at) AS lost_after
  FROM dim.demand AS d
  JOIN dim.step AS s
    ON s.cluster = d.cluster AND s.demand_id = d.demand_id
    AND (s.step = 'evicted' OR (s.step = 'released' AND s.follows <> 'evicted') OR (s.step = 'reserved' AND s.follows = 'reserved'))
  WHERE d.evictions_count > 0
  GROUP BY s.cluster, s.demand_id, d.evictions_first_count, d.evictions_count, d.first_seen_at
),
staged AS (
  SELECT
    s.*, d.demand_kind, d.namespace, d.queue, d.gpu_milli, d.last_seen_at, d.past_run_us, d.is_gated, d.phase,
    greatest(s.waits_count - 1, 0) AS segment,
    CASE
      WHEN d.evictions_count = 0 THEN FALSE
      WHEN coalesce(l.lost_after, d.evictions_count - d.evictions_first_count) > 0 THEN TRUE
      WHEN coalesce(l.lost_before, d.evictions_first_count) > 0 THEN s.step_at < d.first_seen_at
      ELSE FALSE
    END AS is_lossy,
    CASE WHEN d.demand_kind = 'pod_group' THEN coalesce(s.next_at > d.whole_seen_at, TRUE) AND d.whole_seen_at IS DISTINCT FROM d.last_seen_at ELSE FALSE END
      AS is_restarted,
    CASE s.step
      WHEN 'created' THEN
        CASE WHEN d.demand_kind <> 'pod' THEN 'queue' WHEN d.is_gated THEN 'gate' WHEN d.is_kueue_pod THEN 'queue' ELSE 'scheduler' END
      WHEN 'ungated' THEN 'scheduler'
      WHEN 'evicted' THEN
        CASE WHEN s.next_step = 'released' OR (s.next_step IS NULL AND s.follows IN ('reserved', 'admitted', 'running')) THEN 'release_lag' END
      WHEN 'released' THEN
        CASE
          WHEN s.follows = 'evicted' AND starts_with(s.reason_before, 'Deactivated') AND s.next_step IS DISTINCT FROM 'reserved' THEN NULL
          WHEN s.next_step = 'backoff_until' THEN 'backoff'
          ELSE 'queue'
        END
      WHEN 'backoff_until' THEN 'queue'
      WHEN 'reserved' THEN
        CASE
          WHEN s.next_step = 'reserved' THEN 'queue'
          WHEN s.next_step = 'admitted' AND s.next_at > s.step_at THEN 'admission_check'
          WHEN s.next_step IS NULL AND d.phase = 'reserved' THEN 'admission_check'
        END
      WHEN 'admitted' THEN
        CASE
          WHEN s.next_step = 'scheduled' AND s.next_at > s.step_at THEN 'scheduler'
          WHEN s.next_step = 'running' AND s.next_at > s.step_at THEN 'starting'
          WHEN s.next_step IS NULL AND d.pods_seen_count > 0 AND d.phase = 'admitted' THEN 'scheduler'
        END
      WHEN 'scheduled' THEN
        CASE
          WHEN s.next_step = 'running' AND s.next_at > s.step_at THEN 'starting'
          WHEN s.next_step IS NULL AND d.demand_kind = 'pod' AND d.phase = 'Pending' THEN 'starting'
        END
    END AS stage
  FROM stepped AS s
  JOIN dim.demand AS d ON d.cluster = s.cluster AND d.demand_id = s.demand_id
  LEFT JOIN seen AS l ON l.cluster = s.cluster AND l.demand_id = s.demand_id
  WHERE s.step_no NOT IN (8, 9, 10)
),
judged AS (
  SELECT
    *,
    CASE WHEN next_step = 'backoff_until' AND next_at > last_seen_at THEN NULL ELSE next_at END AS ended_at,
    CASE
      WHEN next_step IS NULL OR (next_step = 'backoff_until' AND next_at > last_seen_at) THEN NULL
      WHEN next_step IN ('finished', 'abandoned') THEN 'abandoned'
      WHEN stage IN ('queue', 'gate', 'scheduler') AND demand_kind = 'pod' AND next_step = 'running' THEN 'scheduled'
      WHEN stage = 'queue' AND demand_kind = 'workload' AND next_step <> 'evicted' THEN 'reserved'
      WHEN stage = 'queue' AND demand_kind = 'workload' AND step_after = 'released' THEN 'reserved'
      WHEN next_step IN ('reserved', 'admitted', 'scheduled', 'running', 'evicted') THEN next_step
    END AS ended_by,
    CASE
      WHEN stage = 'queue' AND demand_kind = 'pod' THEN 'workload_not_seen'
      WHEN stage = 'queue' AND demand_kind = 'pod_group' THEN
        CASE
          WHEN is_restarted THEN 'restarted'
          WHEN next_step IN ('running', 'scheduled') AND next_basis_no = 4 THEN 'end_not_stamped'
        END
      WHEN stage = 'queue' THEN
        CASE
          WHEN step = 'reserved' THEN 'release_not_seen'
          WHEN step = 'released' AND follows = 'evicted' AND starts_with(reason_before, 'Deactivated') THEN 'reactivation_not_seen'
          WHEN next_step IN ('released', 'admitted', 'running', 'scheduled') THEN 'reservation_not_seen'
          WHEN next_step = 'evicted' AND step_after = 'released' THEN 'reservation_not_seen'
          WHEN is_lossy AND next_step IS NOT NULL THEN 'evictions_not_seen'
        END
      WHEN stage = 'gate' AND next_step IN ('scheduled', 'running') THEN 'gate_not_seen'
      WHEN stage IN ('gate', 'scheduler') AND (next_step = 'running' OR next_basis_no = 4 OR basis = 'watch') THEN 'end_not_stamped'
    END AS unknown_reason
  FROM staged
  WHERE stage IS NOT NULL AND NOT (step = 'backoff_until' AND step_at > last_seen_at)
),
-- What a run took is no part of the waits before the stamp that is left of them: their bound is shorter by it.
bounded AS (
  SELECT
    * EXCLUDE (ended_at),
    CASE
      WHEN unknown_reason IN ('evictions_not_seen', 'reservation_not_seen') AND step = 'created' AND past_run_us > 0
        THEN greatest(step_at, ended_at - to_microseconds(past_run_us))
      ELSE ended_at
    END AS ended_at,
    coalesce(ended_at, greatest(last_seen_at, step_at)) AS known_to_at
  FROM judged
),
words AS (
  SELECT
    w.cluster, coalesce(m.demand_id, g.demand_id, n.demand_id, w.subject_uid) AS demand_id,
    CASE WHEN w.subject_kind = 'Pod' THEN 'pod' ELSE 'gang' END AS about, w.occurred_at, w.verdict, w.cause
  FROM fact.decision AS w
  LEFT JOIN dim.demand_pod AS m ON m.cluster = w.cluster AND m.pod_uid = w.subject_uid AND w.subject_kind = 'Pod'
  LEFT JOIN (
    SELECT g.cluster, g.object_uid, coalesce(j.object_uid, g.object_uid) AS demand_id
    FROM dim.gang AS g
    LEFT JOIN dim.gang AS j ON j.cluster = g.cluster AND j.object_uid = g.owner_uid AND j.object_kind = 'Job'
  ) AS g ON g.cluster = w.cluster AND g.object_uid = w.subject_uid
  LEFT JOIN dim.demand AS n
    ON n.cluster = w.cluster AND n.namespace = w.namespace AND n.name = w.subject_name
    AND n.demand_kind = CASE w.subject_kind WHEN 'Workload' THEN 'workload' WHEN 'Pod' THEN 'pod' ELSE 'pod_group' END
  WHERE w.verdict IN ('not_now', 'never_fits', 'misconfigured')
),
last_words AS (
  SELECT cluster, demand_id, about, occurred_at, arg_max(verdict, cause) AS verdict, max(cause) AS cause
  FROM words
  GROUP BY cluster, demand_id, about, occurred_at
),
explained AS (
  SELECT b.*, w.verdict, w.cause, w.occurred_at AS said_at
  FROM bounded AS b
  ASOF LEFT JOIN last_words AS w
    ON w.cluster = b.cluster AND w.demand_id = b.demand_id
    AND w.about = CASE WHEN b.demand_kind = 'pod' OR (b.demand_kind = 'workload' AND b.stage = 'scheduler') THEN 'pod' ELSE 'gang' END
    AND b.known_to_at >= w.occurred_at
)
SELECT
  cluster, demand_id, demand_kind, namespace, queue, segment, stage, step_at AS started_at, ended_at, known_to_at, ended_by,
  CASE WHEN stage IN ('queue', 'gate', 'scheduler') AND said_at >= step_at AND verdict <> 'misconfigured' THEN cause END AS cause,
  CASE WHEN stage IN ('queue', 'gate', 'scheduler') AND said_at >= step_at AND verdict <> 'misconfigured' THEN verdict END AS fit,
  gpu_milli, basis, unknown_reason
FROM explained
WHERE NOT (stage = 'queue' AND ended_at IS NULL AND coalesce(verdict = 'misconfigured' AND said_at >= step_at, FALSE))
