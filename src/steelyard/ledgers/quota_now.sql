-- The balance of each queue and pool at the instant of its latest word (said_at), amounts in thousandths: what one dump alone tells. Columns as in the
-- ledger; claimed: what the controller says is used. max_capacity: nominal and all that may be borrowed, or what Volcano calls the queue's capability,
-- NULL where nothing limits it, or where the limit is among refused (as in fact.quota). leaked_milli_us: what has leaked until then, leaked_since_at: since when the oldest of it does.
WITH
capability AS (
  SELECT cluster, queue, resource, arg_max({'milli': capability_milli, 'refused': refused}, occurred_at) AS said
  FROM fact.quota
  WHERE queue_kind = 'volcano_queue' AND (capability_milli IS NOT NULL OR contains(refused, 'capability'))
  GROUP BY cluster, queue, resource
),
latest AS (
  SELECT key_no, max(at_us) AS at_us FROM dim.quota_said GROUP BY key_no
),
own AS (
  SELECT
    latest.key_no,
    coalesce(sum(part.milli) FILTER (WHERE part.what = 'held'), 0) AS held_milli,
    CASE WHEN count(*) FILTER (WHERE part.what = 'leaked' AND part.milli IS NULL) = 0 THEN coalesce(sum(part.milli) FILTER (WHERE part.what = 'leaked'), 0) END
      AS leaked_milli,
    min(part.from_us) FILTER (WHERE part.what = 'leaked') AS leaked_since_us,
    sum(CASE WHEN part.what = 'leaked' THEN CAST(part.milli AS HUGEINT) * (latest.at_us - part.from_us) ELSE 0 END) AS leaked_milli_us,
    CASE WHEN count(*) FILTER (WHERE part.what = 'waiting' AND part.milli IS NULL) = 0 THEN coalesce(sum(part.milli) FILTER (WHERE part.what = 'waiting'), 0) END
      AS waiting_milli,
    count(*) FILTER (WHERE part.what = 'known') > 0 AS known, count(*) FILTER (WHERE part.what = 'known_waiting') > 0 AS known_waiting
  FROM latest
  JOIN dim.quota_interval AS part
    ON part.key_no = latest.key_no AND part.from_us <= latest.at_us AND (part.to_us > latest.at_us OR part.is_open AND part.to_us = latest.at_us)
  GROUP BY latest.key_no
),
weighed AS (
  SELECT
    key.*, capability.said.milli AS capability_milli, coalesce(capability.said.refused, said.refused) AS refused, said.at_us, said.nominal_milli, said.borrowing_limit_milli, said.lending_limit_milli, said.used_milli AS claimed_milli,
    coalesce(said.reserved_milli, none.none_milli) AS reserved_milli,
    coalesce(CASE WHEN own.known THEN own.held_milli END, said.used_milli, none.none_milli) AS used_milli,
    CASE WHEN own.known THEN 'holding' WHEN said.used_milli IS NOT NULL THEN 'claimed' END AS used_basis,
    coalesce(CASE WHEN own.known THEN own.leaked_milli END, none.none_milli) AS leaked_milli,
    CASE WHEN own.known THEN own.leaked_since_us END AS leaked_since_us, CASE WHEN own.known THEN own.leaked_milli_us END AS leaked_milli_us,
    coalesce(CASE WHEN own.known_waiting THEN own.waiting_milli END, said.pending_milli, none.none_milli) AS pending_milli, said.idle_milli
  FROM latest
  JOIN dim.quota_said AS said ON said.key_no = latest.key_no AND said.at_us = latest.at_us
  JOIN dim.quota_key AS key ON key.key_no = latest.key_no
  LEFT JOIN own ON own.key_no = latest.key_no
  LEFT JOIN capability
    ON key.queue_kind = 'volcano_queue' AND capability.cluster = key.cluster AND capability.queue = key.queue AND capability.resource = key.resource
  LEFT JOIN (SELECT 'cohort' AS queue_kind, 0 AS none_milli) AS none ON none.queue_kind = key.queue_kind
),
balance AS (
  SELECT
    *,
    CASE WHEN shares THEN above_milli(used_milli, nominal_milli) ELSE 0 * above_milli(used_milli, nominal_milli) END AS borrowed_milli,
    CASE WHEN shares THEN 0 * above_milli(used_milli, nominal_milli) ELSE above_milli(used_milli, nominal_milli) END AS over_nominal_milli,
    CASE WHEN NOT shares THEN 0 END AS lent_milli,
    reserved_not_used_milli(reserved_milli, used_milli) AS reserved_not_used_milli,
    coalesce(idle_milli, spare_milli(nominal_milli, reserved_milli, used_milli)) AS spare_milli
  FROM weighed
)
SELECT
  cluster, queue_kind, queue, namespace, flavor, resource, pool, make_timestamp(at_us) AS said_at, nominal_milli, borrowing_limit_milli,
  lending_limit_milli, coalesce(capability_milli, nominal_milli + borrowing_limit_milli) AS max_capacity_milli, reserved_milli, claimed_milli,
  CAST(used_milli AS BIGINT) AS used_milli, used_basis, CAST(borrowed_milli AS BIGINT) AS borrowed_milli,
  CAST(over_nominal_milli AS BIGINT) AS over_nominal_milli, CAST(lent_milli AS BIGINT) AS lent_milli,
  CAST(reserved_not_used_milli AS BIGINT) AS reserved_not_used_milli, CAST(leaked_milli AS BIGINT) AS leaked_milli,
  make_timestamp(leaked_since_us) AS leaked_since_at, TRY_CAST(leaked_milli_us AS BIGINT) AS leaked_milli_us,
  CAST(pending_milli AS BIGINT) AS pending_milli, CAST(greatest(spare_milli, 0 * spare_milli) AS BIGINT) AS idle_milli, refused
FROM balance
UNION ALL
SELECT
  cluster, 'pool', pool, NULL, flavor, resource, pool, make_timestamp(max(at_us)),
  CASE WHEN count(nominal_milli) = count(*) THEN CAST(sum(nominal_milli) AS BIGINT) END, NULL, NULL, NULL,
  CASE WHEN count(reserved_milli) = count(*) THEN CAST(sum(reserved_milli) AS BIGINT) END,
  CASE WHEN count(claimed_milli) FILTER (WHERE queue_kind <> 'cohort') = count(*) FILTER (WHERE queue_kind <> 'cohort') THEN CAST(sum(claimed_milli) AS BIGINT) END,
  CASE WHEN count(used_milli) = count(*) THEN CAST(sum(used_milli) AS BIGINT) END,
  CASE WHEN min(used_basis) = max(used_basis) THEN min(used_basis) WHEN count(used_basis) > 0 THEN 'mixed' END,
  CASE WHEN count(borrowed_milli) = count(*) THEN CAST(sum(borrowed_milli) AS BIGINT) END,
  CASE WHEN count(over_nominal_milli) = count(*) THEN CAST(sum(over_nominal_milli) AS BIGINT) END,
  CASE WHEN count(borrowed_milli) = count(*) THEN CAST(sum(borrowed_milli) AS BIGINT) END,
  CASE WHEN count(reserved_not_used_milli) = count(*) THEN CAST(sum(reserved_not_used_milli) AS BIGINT) END,
  CASE WHEN count(leaked_milli) = count(*) THEN CAST(sum(leaked_milli) AS BIGINT) END,
  make_timestamp(min(leaked_since_us)), CASE WHEN count(leaked_milli) = count(*) THEN TRY_CAST(sum(leaked_milli_us) AS BIGINT) END,
  CASE WHEN count(pending_milli) = count(*) THEN CAST(sum(pending_milli) AS BIGINT) END,
  CASE WHEN count(spare_milli) = count(*) THEN CAST(greatest(sum(spare_milli), 0) AS BIGINT) END, NULL
FROM balance
WHERE pool_no IS NOT NULL
GROUP BY cluster, pool_no, pool, flavor, resource
