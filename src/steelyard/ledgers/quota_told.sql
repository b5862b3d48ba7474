-- What the controllers and traces say of each key, as stretches in which it stays the same (from_us, to_us). A row speaks until the next of its key,
-- at most for its own step, for the gap that its listing declares, or to the end of the watch that covers it; a dump alone speaks for no time.
WITH
declared AS (
  SELECT cluster, occurred_at, max(gap_max_us) AS gap_max_us
  FROM fact.source_status
  WHERE kind = 'pods' AND status <> 'failed' AND gap_max_us > 0 AND observed_to_at IS NULL
  GROUP BY cluster, occurred_at
),
stretch AS (
  SELECT cluster, word, min(from_at) AS from_at, max(to_at) AS to_at
  FROM (
    SELECT *, count(*) FILTER (WHERE opens) OVER (PARTITION BY cluster, word ORDER BY from_at, to_at ROWS UNBOUNDED PRECEDING) AS island
    FROM (
      SELECT
        cluster, kind AS word, observed_from_at AS from_at, observed_to_at AS to_at,
        coalesce(
          observed_from_at > max(observed_to_at) OVER (
            PARTITION BY cluster, kind ORDER BY observed_from_at, observed_to_at ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
          ), TRUE
        ) AS opens
      FROM fact.source_status
      WHERE kind IN ('clusterqueues.kueue.x-k8s.io', 'cohorts.kueue.x-k8s.io', 'queues.scheduling.volcano.sh', 'resourcequotas')
        AND status = 'ok' AND observed_to_at > observed_from_at
    ) AS watched
  ) AS joined
  GROUP BY cluster, word, island
),
bounded AS (
  SELECT
    said.key_no, said.at_us, said.nominal_milli, said.reserved_milli, said.used_milli, said.pending_milli, said.idle_milli,
    least(
      lead(said.at_us) OVER (PARTITION BY said.key_no ORDER BY said.at_us),
      greatest(said.at_us + coalesce(said.interval_us, declared.gap_max_us, 0), epoch_us(stretch.to_at))
    ) AS to_us
  FROM dim.quota_said AS said
  LEFT JOIN declared
    ON declared.cluster = said.cluster AND declared.occurred_at = said.occurred_at
  ASOF LEFT JOIN stretch
    ON stretch.cluster = said.cluster AND said.occurred_at >= stretch.from_at
    AND stretch.word = CASE said.queue_kind
      WHEN 'cluster_queue' THEN 'clusterqueues.kueue.x-k8s.io' WHEN 'cohort' THEN 'cohorts.kueue.x-k8s.io'
      WHEN 'volcano_queue' THEN 'queues.scheduling.volcano.sh' ELSE 'resourcequotas'
    END
),
marked AS (
  SELECT
    *, lag(to_us) OVER same_key AS ended_us,
    lag(to_us) OVER same_key IS DISTINCT FROM at_us
    OR lag(nominal_milli) OVER same_key IS DISTINCT FROM nominal_milli OR lag(reserved_milli) OVER same_key IS DISTINCT FROM reserved_milli
    OR lag(used_milli) OVER same_key IS DISTINCT FROM used_milli OR lag(pending_milli) OVER same_key IS DISTINCT FROM pending_milli
    OR lag(idle_milli) OVER same_key IS DISTINCT FROM idle_milli AS opens
  FROM bounded
  WHERE to_us > at_us
  WINDOW same_key AS (PARTITION BY key_no ORDER BY at_us)
),
last AS (
  SELECT key_no, max(to_us) AS to_us FROM bounded WHERE to_us > at_us GROUP BY key_no
)
-- A run of equal rows ends where the row before the next run does.
SELECT
  opening.key_no, opening.at_us AS from_us,
  coalesce(lead(opening.ended_us) OVER (PARTITION BY opening.key_no ORDER BY opening.at_us), last.to_us) AS to_us,
  opening.nominal_milli, opening.reserved_milli, opening.used_milli, opening.pending_milli, opening.idle_milli
FROM marked AS opening
JOIN last ON last.key_no = opening.key_no
WHERE opening.opens
