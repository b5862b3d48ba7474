-- What the controllers and traces say of each key, as stretches in which it stays the same (from_us, to_us). A row speaks until the next of its key,
-- at most for its own step, for the gap that its listing declares, or to the end of the watch that covers it; a dump alone speaks for no time.
-- Several rows of one key and instant are one: figure by figure, of the row that tells of use before one that does not, then of the one seen later.
WITH
said AS (
  SELECT
    key.key_no, epoch_us(quota.occurred_at) AS at_us, quota.cluster, quota.source, quota.queue_kind, quota.occurred_at,
    quota.observed_at, quota.fact_id,
    amount_milli(coalesce(quota.nominal_milli, quota.deserved_milli)) AS nominal_milli,
    amount_milli(quota.reserved_milli) AS reserved_milli, amount_milli(quota.used_milli) AS used_milli,
    amount_milli(quota.pending_milli) AS pending_milli, amount_milli(quota.idle_milli) AS idle_milli,
    CASE WHEN quota.interval_us > 0 THEN least(quota.interval_us, 31622400000000) END AS interval_us
  FROM fact.quota AS quota
  JOIN dim.quota_key AS key
    ON key.cluster = quota.cluster AND key.queue_kind = quota.queue_kind AND key.queue = quota.queue AND key.resource = quota.resource
    AND key.namespace IS NOT DISTINCT FROM quota.namespace AND key.flavor IS NOT DISTINCT FROM quota.flavor
  CROSS JOIN dim.parameter AS parameter
  WHERE quota.occurred_at >= parameter.history_from_at AND quota.occurred_at <= parameter.horizon_at
),
several AS (
  SELECT key_no, at_us FROM said GROUP BY key_no, at_us HAVING count(*) > 1
),
ranked AS (
  SELECT
    said.*,
    row_number() OVER (
      PARTITION BY key_no, at_us ORDER BY used_milli IS NULL AND reserved_milli IS NULL, observed_at DESC, fact_id
    ) AS place
  FROM said
  SEMI JOIN several ON several.key_no = said.key_no AND several.at_us = said.at_us
),
single AS (
  SELECT key_no, at_us, cluster, source, queue_kind, occurred_at, nominal_milli, reserved_milli, used_milli, pending_milli, idle_milli, interval_us
  FROM said
  ANTI JOIN several ON several.key_no = said.key_no AND several.at_us = said.at_us
  UNION ALL
  SELECT
    key_no, at_us, min(cluster), min_by(source, place), min(queue_kind), min(occurred_at), min_by(nominal_milli, place),
    min_by(reserved_milli, place), min_by(used_milli, place), min_by(pending_milli, place), min_by(idle_milli, place),
    min_by(interval_us, place)
  FROM ranked
  GROUP BY key_no, at_us
),
declared AS (
  SELECT cluster, source, occurred_at, max(gap_max_us) AS gap_max_us
  FROM fact.source_status
  WHERE status <> 'failed' AND gap_max_us > 0 AND observed_to_at IS NULL
  GROUP BY cluster, source, occurred_at
),
stretch AS (
  SELECT cluster, source, word, min(from_at) AS from_at, max(to_at) AS to_at
  FROM (
    SELECT *, count(*) FILTER (WHERE opens) OVER (PARTITION BY cluster, source, word ORDER BY from_at, to_at ROWS UNBOUNDED PRECEDING) AS island
    FROM (
      SELECT
        cluster, source, kind AS word, observed_from_at AS from_at, observed_to_at AS to_at,
        coalesce(
          observed_from_at > max(observed_to_at) OVER (
            PARTITION BY cluster, source, kind ORDER BY observed_from_at, observed_to_at ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
          ), TRUE
        ) AS opens
      FROM fact.source_status
      WHERE kind IN ('clusterqueues.kueue.x-k8s.io', 'cohorts.kueue.x-k8s.io', 'queues.scheduling.volcano.sh', 'resourcequotas')
        AND status = 'ok' AND observed_to_at > observed_from_at
    ) AS watched
  ) AS joined
  GROUP BY cluster, source, word, island
),
bounded AS (
  SELECT
    single.key_no, single.at_us, single.nominal_milli, single.reserved_milli, single.used_milli, single.pending_milli, single.idle_milli,
    least(
      lead(single.at_us) OVER (PARTITION BY single.key_no ORDER BY single.at_us),
      greatest(single.at_us + coalesce(single.interval_us, declared.gap_max_us, 0), epoch_us(stretch.to_at))
    ) AS to_us
  FROM single
  LEFT JOIN declared
    ON declared.cluster = single.cluster AND declared.source = single.source AND declared.occurred_at = single.occurred_at
  ASOF LEFT JOIN stretch
    ON stretch.cluster = single.cluster AND stretch.source = single.source AND single.occurred_at >= stretch.from_at
    AND stretch.word = CASE single.queue_kind
      WHEN 'cluster_queue' THEN 'clusterqueues.kueue.x-k8s.io' WHEN 'cohort' THEN 'cohorts.kueue.x-k8s.io'
      WHEN 'volcano_queue' THEN 'queues.scheduling.volcano.sh' ELSE 'resourcequotas'
    END
),
marked AS (
  SELECT
    *,
    lag(to_us) OVER same_key IS DISTINCT FROM at_us
    OR lag(nominal_milli) OVER same_key IS DISTINCT FROM nominal_milli OR lag(reserved_milli) OVER same_key IS DISTINCT FROM reserved_milli
    OR lag(used_milli) OVER same_key IS DISTINCT FROM used_milli OR lag(pending_milli) OVER same_key IS DISTINCT FROM pending_milli
    OR lag(idle_milli) OVER same_key IS DISTINCT FROM idle_milli AS opens
  FROM bounded
  WHERE to_us > at_us
  WINDOW same_key AS (PARTITION BY key_no ORDER BY at_us)
)
SELECT
  key_no, min(at_us) AS from_us, max(to_us) AS to_us, min(nominal_milli) AS nominal_milli, min(reserved_milli) AS reserved_milli,
  min(used_milli) AS used_milli, min(pending_milli) AS pending_milli, min(idle_milli) AS idle_milli
FROM (
  SELECT *, count(*) FILTER (WHERE opens) OVER (PARTITION BY key_no ORDER BY at_us ROWS UNBOUNDED PRECEDING) AS run_no
  FROM marked
) AS numbered
GROUP BY key_no, run_no
