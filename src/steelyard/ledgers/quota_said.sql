-- What was said of each key at each instant, one row: where several rows tell of it, figure by figure, of the row that tells of use before one that does
-- not, then of the one that was seen later. An amount that cannot be one of cards is not known.
WITH
said AS (
  SELECT
    key.key_no, epoch_us(quota.occurred_at) AS at_us, quota.cluster, quota.source, quota.queue_kind, quota.occurred_at,
    quota.observed_at, quota.fact_id,
    amount_milli(coalesce(quota.nominal_milli, quota.deserved_milli)) AS nominal_milli,
    amount_milli(quota.reserved_milli) AS reserved_milli, amount_milli(quota.used_milli) AS used_milli,
    amount_milli(quota.pending_milli) AS pending_milli, amount_milli(quota.idle_milli) AS idle_milli,
    amount_milli(quota.borrowing_limit_milli) AS borrowing_limit_milli, amount_milli(quota.lending_limit_milli) AS lending_limit_milli,
    quota.refused,
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
)
SELECT
  key_no, at_us, cluster, source, queue_kind, occurred_at, nominal_milli, reserved_milli, used_milli, pending_milli, idle_milli,
  borrowing_limit_milli, lending_limit_milli, refused, interval_us
FROM said
ANTI JOIN several ON several.key_no = said.key_no AND several.at_us = said.at_us
UNION ALL
SELECT
  key_no, at_us, min(cluster), min_by(source, place), min(queue_kind), min(occurred_at), min_by(nominal_milli, place),
  min_by(reserved_milli, place), min_by(used_milli, place), min_by(pending_milli, place), min_by(idle_milli, place),
  min_by(borrowing_limit_milli, place), min_by(lending_limit_milli, place), min_by(refused, place), min_by(interval_us, place)
FROM ranked
GROUP BY key_no, at_us
