-- name: wait_figures
WITH cohort AS (
  SELECT
    epoch_us(w.known_to_at) - epoch_us(w.started_at) AS wait_us,
    CASE
      WHEN w.unknown_reason IS NOT NULL THEN 3
      ELSE CASE wait_outcome(w.ended_by) WHEN 'served' THEN 0 WHEN 'given_up' THEN 1 ELSE 2 END
    END AS outcome,
    coalesce(w.fit = 'never_fits', FALSE) AS never_fits, amount_milli(w.gpu_milli) AS gpu_milli
  FROM ledger.wait AS w
  WHERE is_queueing(w.stage, w.demand_kind, w.unknown_reason)
    AND w.started_at >= make_timestamp($from_us::BIGINT) AND w.started_at < make_timestamp($to_us::BIGINT)
    AND is_among(w.cluster, $clusters) AND is_among(w.queue, $queues) AND is_among(w.namespace, $namespaces)
    AND is_one_of(w.demand_id, $demand_ids::VARCHAR[])
    AND (
      NOT $of_demands
      OR (w.cluster, w.demand_id) IN (
        SELECT (d.cluster, d.demand_id)
        FROM dim.demand AS d
        WHERE $of_demands AND is_among(d.tenant, $tenants) AND is_among(d.priority, $priorities) AND is_among(d.person, $persons)
          AND is_among(d.workload_kind || '/' || d.workload_name, $workloads)
      )
    )
),
counted AS MATERIALIZED (
  SELECT wait_us, outcome, gpu_milli, never_fits, count(*) AS waits
  FROM cohort
  GROUP BY ALL
),
-- Who is censored is at risk at every end up to then, so that waits count with the last end that they saw: as many rows as there are ends. NULL: saw none.
ends AS (
  SELECT DISTINCT wait_us AS end_us FROM counted WHERE outcome < 2
),
seen AS (
  SELECT e.end_us AS wait_us, c.outcome, c.gpu_milli, c.never_fits, c.waits
  FROM counted AS c
  ASOF LEFT JOIN ends AS e ON c.wait_us >= e.end_us
  WHERE c.outcome = 2
  UNION ALL
  SELECT wait_us, outcome, gpu_milli, never_fits, waits FROM counted WHERE outcome < 2
),
times AS (
  SELECT
    wait_us, never_fits,
    CASE WHEN gpu_milli IS NULL THEN 'unknown' WHEN gpu_milli = 0 THEN 'none' WHEN gpu_milli <= 1000 THEN '1' WHEN gpu_milli <= 8000 THEN '2-8' ELSE 'more' END AS size,
    sum(waits)::BIGINT AS waits, sum(CASE WHEN outcome = 0 THEN waits ELSE 0 END)::BIGINT AS events,
    sum(CASE WHEN outcome = 1 THEN waits ELSE 0 END)::BIGINT AS abandoned,
    sum(waits::HUGEINT * gpu_milli) AS gpu_waits, sum(CASE WHEN outcome = 0 THEN waits::HUGEINT * gpu_milli ELSE 0 END) AS gpu_events
  FROM seen
  GROUP BY ALL
),
curves AS (
  SELECT 'everyone' AS curve, wait_us, sum(waits) AS waits, sum(events) AS events, sum(waits) AS plain_waits, sum(events) AS plain_events
  FROM times
  GROUP BY wait_us
  UNION ALL
  SELECT 'on_gpus', wait_us, sum(waits), sum(events), sum(waits), sum(events) FROM times WHERE size NOT IN ('unknown', 'none') GROUP BY wait_us
  UNION ALL
  SELECT 'fitting', wait_us, sum(waits), sum(events), sum(waits), sum(events) FROM times WHERE NOT never_fits GROUP BY wait_us
  UNION ALL
  SELECT 'by_gpus', wait_us, sum(gpu_waits), sum(gpu_events), sum(waits), sum(events) FROM times WHERE size NOT IN ('unknown', 'none') GROUP BY wait_us
  UNION ALL
  SELECT 'size/' || size, wait_us, sum(waits), sum(events), sum(waits), sum(events) FROM times GROUP BY size, wait_us
),
-- served: how many were served by then, of which the naive percentiles are taken.
survivals AS (
  SELECT
    *, at_risk(waits, curve, wait_us) AS at_risk, sum(events) OVER by_then AS served, sum(events) OVER (PARTITION BY curve) AS served_count
  FROM curves
  WINDOW by_then AS (PARTITION BY curve ORDER BY wait_us NULLS FIRST ROWS UNBOUNDED PRECEDING)
),
products AS (
  SELECT *, product_limit(events, at_risk, curve, wait_us) AS survival FROM survivals
),
estimates AS (
  SELECT
    'curve' AS what, curve, sum(plain_waits)::BIGINT AS waits_count, sum(plain_events)::BIGINT AS events_count, min(survival) AS survival,
    survival_quantile(wait_us, events, survival, 0.5) AS p50_us, survival_quantile(wait_us, events, survival, 0.95) AS p95_us,
    survival_quantile(wait_us, events, survival, 0.99) AS p99_us
  FROM products
  GROUP BY curve
),
ranks AS (
  SELECT p, p * (max(served_count) - 1) AS at_rank
  FROM products
  CROSS JOIN (VALUES (0.5::DOUBLE), (0.95::DOUBLE), (0.99::DOUBLE)) AS level (p)
  WHERE curve = 'everyone' AND served_count > 0
  GROUP BY p
),
neighbours AS (
  SELECT
    r.p, r.at_rank, min(CASE WHEN m.served > floor(r.at_rank) THEN m.wait_us END) AS below_us,
    min(CASE WHEN m.served > ceil(r.at_rank) THEN m.wait_us END) AS above_us
  FROM ranks AS r
  CROSS JOIN products AS m
  WHERE m.curve = 'everyone'
  GROUP BY r.p, r.at_rank
),
naive AS (
  SELECT
    'naive' AS what, CAST(round(p * 100) AS BIGINT) AS level, below_us + (above_us - below_us) * (at_rank - floor(at_rank)) AS value_us
  FROM neighbours
),
counts AS (
  SELECT
    'counts' AS what,
    coalesce(sum(CASE WHEN outcome = 3 THEN waits END), 0)::BIGINT AS not_recoverable_count,
    max(CASE WHEN outcome = 2 THEN wait_us END) AS longest_waiting_us
  FROM counted
),
risks AS (
  SELECT *, at_risk(waits, 'everyone', wait_us) AS at_risk
  FROM (SELECT wait_us, sum(waits) AS waits, sum(events) AS events, sum(abandoned) AS abandoned FROM times GROUP BY wait_us) AS together
),
competing AS (
  SELECT
    *,
    exp(coalesce(
      sum(CASE WHEN events + abandoned = 0 THEN 0 WHEN events + abandoned = at_risk THEN -1e300 ELSE ln((at_risk - events - abandoned) / at_risk) END)
        OVER (ORDER BY wait_us NULLS FIRST ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
      0
    )) AS survival_before
  FROM risks
),
horizons AS (
  SELECT DISTINCT horizon_us
  FROM (
    SELECT unnest($horizons_us::BIGINT[]) AS horizon_us
    UNION ALL
    SELECT max(end_us) FROM ends
  ) AS named
  WHERE horizon_us BETWEEN (SELECT min(wait_us) FROM counted WHERE outcome < 3) AND (SELECT max(wait_us) FROM counted WHERE outcome < 3)
),
-- Both ends together are all that no longer wait; each is its part of those, so that no rounding of a sum makes it more than all.
incidence AS (
  SELECT
    'incidence' AS what, horizon_us, coalesce(ended * (scheduled_sum / nullif(scheduled_sum + abandoned_sum, 0)), 0) AS scheduled,
    coalesce(ended * (abandoned_sum / nullif(scheduled_sum + abandoned_sum, 0)), 0) AS abandoned
  FROM (
    SELECT
      h.horizon_us, sum(s.survival_before * s.events / s.at_risk) AS scheduled_sum, sum(s.survival_before * s.abandoned / s.at_risk) AS abandoned_sum,
      1 - min(s.survival_before * ((s.at_risk - s.events - s.abandoned) / s.at_risk)) AS ended
    FROM horizons AS h
    LEFT JOIN competing AS s ON s.wait_us <= h.horizon_us
    GROUP BY h.horizon_us
  ) AS summed
)
SELECT * FROM estimates
UNION ALL BY NAME
SELECT * FROM naive
UNION ALL BY NAME
SELECT * FROM counts
UNION ALL BY NAME
SELECT * FROM incidence
ORDER BY what, curve, horizon_us;
