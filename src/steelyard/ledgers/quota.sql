-- Quota of cards per queue, flavor, resource and grain, and of each pool as a whole: thousandths x microseconds, exact in integers (see quota.py).
-- An amount is NULL where it is not known at some moment of the grain's observed time; time is 0 where nothing was observed, as in a grain of
-- which only refusals are known.
WITH
parameter AS (
  SELECT grain_us FROM dim.parameter
),
key_part AS (
  SELECT
    span.*, greatest(span.from_us, cut.grain_us_at) AS lo_us, least(span.to_us, cut.grain_us_at + cut.grain_us) AS hi_us, cut.grain_us_at
  FROM dim.quota_span AS span
  CROSS JOIN parameter
  CROSS JOIN LATERAL (
    SELECT
      parameter.grain_us,
      unnest(range(grain_start_us(span.from_us, parameter.grain_us), span.to_us, parameter.grain_us)) AS grain_us_at
  ) AS cut
),
pool_part AS (
  SELECT
    pool.*, greatest(pool.from_us, cut.grain_us_at) AS lo_us, least(pool.to_us, cut.grain_us_at + cut.grain_us) AS hi_us, cut.grain_us_at
  FROM dim.quota_pool AS pool
  CROSS JOIN parameter
  CROSS JOIN LATERAL (
    SELECT
      parameter.grain_us,
      unnest(range(grain_start_us(pool.from_us, parameter.grain_us), pool.to_us, parameter.grain_us)) AS grain_us_at
  ) AS cut
),
-- How long all that a queue waits for would have fitted into what its pool left idle, and how long the pool told.
fit AS (
  SELECT
    waiting.key_no, waiting.grain_us_at,
    CAST(sum(least(waiting.hi_us, pool.hi_us) - greatest(waiting.lo_us, pool.lo_us)) AS BIGINT) AS told_us,
    CAST(
      coalesce(
        sum(least(waiting.hi_us, pool.hi_us) - greatest(waiting.lo_us, pool.lo_us)) FILTER (WHERE pool.idle_milli >= waiting.pending_milli), 0
      ) AS BIGINT
    ) AS fits_us
  FROM key_part AS waiting
  JOIN pool_part AS pool
    ON pool.pool_no = waiting.pool_no AND pool.grain_us_at = waiting.grain_us_at AND pool.lo_us < waiting.hi_us AND pool.hi_us > waiting.lo_us
  WHERE waiting.pending_milli > 0 AND pool.idle_milli IS NOT NULL
  GROUP BY waiting.key_no, waiting.grain_us_at
),
part AS (
  SELECT
    key_no, CAST(NULL AS BIGINT) AS pool_no, grain_us_at, hi_us - lo_us AS length_us, nominal_milli, reserved_milli, used_milli, used_basis,
    borrowed_milli, over_nominal_milli,
    CASE WHEN NOT shares THEN 0 END AS lent_milli, reserved_not_used_milli, leaked_milli, pending_milli, idle_milli
  FROM key_part
  UNION ALL
  SELECT
    NULL, pool_no, grain_us_at, hi_us - lo_us, nominal_milli, reserved_milli, used_milli, NULL, borrowed_milli, over_nominal_milli,
    borrowed_milli, reserved_not_used_milli, leaked_milli, pending_milli, idle_milli
  FROM pool_part
),
total AS (
  SELECT
    key_no, pool_no, grain_us_at, CAST(sum(length_us) AS BIGINT) AS observed_us,
    CASE WHEN count(nominal_milli) = count(*) THEN TRY_CAST(sum(CAST(length_us AS HUGEINT) * nominal_milli) AS BIGINT) END AS nominal_milli_us,
    CASE WHEN count(reserved_milli) = count(*) THEN TRY_CAST(sum(CAST(length_us AS HUGEINT) * reserved_milli) AS BIGINT) END AS reserved_milli_us,
    CASE WHEN count(used_milli) = count(*) THEN TRY_CAST(sum(CAST(length_us AS HUGEINT) * used_milli) AS BIGINT) END AS used_milli_us,
    CASE WHEN min(used_basis) = max(used_basis) THEN min(used_basis) WHEN count(used_basis) > 0 THEN 'mixed' END AS used_basis,
    CASE WHEN count(borrowed_milli) = count(*) THEN TRY_CAST(sum(CAST(length_us AS HUGEINT) * borrowed_milli) AS BIGINT) END AS borrowed_milli_us,
    CASE WHEN count(over_nominal_milli) = count(*) THEN TRY_CAST(sum(CAST(length_us AS HUGEINT) * over_nominal_milli) AS BIGINT) END AS over_nominal_milli_us,
    CASE WHEN count(lent_milli) = count(*) THEN TRY_CAST(sum(CAST(length_us AS HUGEINT) * lent_milli) AS BIGINT) END AS lent_milli_us,
    CASE WHEN count(reserved_not_used_milli) = count(*) THEN TRY_CAST(sum(CAST(length_us AS HUGEINT) * reserved_not_used_milli) AS BIGINT) END
      AS reserved_not_used_milli_us,
    CASE WHEN count(leaked_milli) = count(*) THEN TRY_CAST(sum(CAST(length_us AS HUGEINT) * leaked_milli) AS BIGINT) END AS leaked_milli_us,
    CASE WHEN count(pending_milli) = count(*) THEN TRY_CAST(sum(CAST(length_us AS HUGEINT) * pending_milli) AS BIGINT) END AS pending_milli_us,
    CASE WHEN count(idle_milli) = count(*) THEN TRY_CAST(sum(CAST(length_us AS HUGEINT) * greatest(idle_milli, 0)) AS BIGINT) END AS idle_milli_us,
    CASE WHEN count(pending_milli) = count(*) THEN CAST(coalesce(sum(length_us) FILTER (WHERE pending_milli > 0), 0) AS BIGINT) END AS pending_us,
    CASE
      WHEN count(pending_milli) = count(*) AND count(*) FILTER (WHERE pending_milli > 0 AND idle_milli IS NULL) = 0
        THEN CAST(coalesce(sum(length_us) FILTER (WHERE pending_milli > 0 AND idle_milli >= pending_milli), 0) AS BIGINT)
    END AS pending_fits_own_us
  FROM part
  GROUP BY key_no, pool_no, grain_us_at
),
refused AS (
  SELECT key_no, grain_start_us(epoch_us(first_at), parameter.grain_us) AS grain_us_at, CAST(count(*) AS BIGINT) AS refused_count
  FROM dim.quota_refused
  CROSS JOIN parameter
  GROUP BY key_no, grain_us_at
),
keyed AS (
  SELECT
    coalesce(total.key_no, refused.key_no) AS key_no, coalesce(total.grain_us_at, refused.grain_us_at) AS grain_us_at,
    coalesce(total.observed_us, 0) AS observed_us, total.nominal_milli_us, total.reserved_milli_us, total.used_milli_us, total.used_basis,
    total.borrowed_milli_us, total.over_nominal_milli_us, total.lent_milli_us, total.reserved_not_used_milli_us, total.leaked_milli_us,
    total.pending_milli_us, total.idle_milli_us, total.pending_us, total.pending_fits_own_us, coalesce(refused.refused_count, 0) AS refused_count
  FROM (SELECT * FROM total WHERE key_no IS NOT NULL) AS total
  FULL JOIN refused ON refused.key_no = total.key_no AND refused.grain_us_at = total.grain_us_at
)
SELECT
  key.cluster, key.queue_kind, key.queue, key.namespace, key.flavor, key.resource, make_timestamp(keyed.grain_us_at) AS grain_at,
  keyed.observed_us, keyed.nominal_milli_us, keyed.reserved_milli_us, keyed.used_milli_us, keyed.used_basis, keyed.borrowed_milli_us,
  keyed.over_nominal_milli_us, keyed.lent_milli_us, keyed.reserved_not_used_milli_us, keyed.leaked_milli_us, keyed.pending_milli_us,
  keyed.idle_milli_us, keyed.pending_us, keyed.pending_fits_own_us,
  CASE
    WHEN keyed.pending_us = 0 THEN 0
    WHEN key.pool_no IS NULL THEN keyed.pending_fits_own_us
    WHEN fit.told_us = keyed.pending_us THEN fit.fits_us
  END AS pending_fits_pool_us,
  keyed.refused_count
FROM keyed
JOIN dim.quota_key AS key ON key.key_no = keyed.key_no
LEFT JOIN fit ON fit.key_no = keyed.key_no AND fit.grain_us_at = keyed.grain_us_at
UNION ALL
SELECT
  pool.cluster, 'pool', pool.pool, NULL, pool.flavor, pool.resource, make_timestamp(total.grain_us_at), total.observed_us, total.nominal_milli_us,
  total.reserved_milli_us, total.used_milli_us, NULL, total.borrowed_milli_us, total.over_nominal_milli_us, total.lent_milli_us,
  total.reserved_not_used_milli_us, total.leaked_milli_us, total.pending_milli_us, total.idle_milli_us, total.pending_us,
  total.pending_fits_own_us, total.pending_fits_own_us, 0
FROM total
JOIN (SELECT DISTINCT pool_no, cluster, pool, flavor, resource FROM dim.quota_key WHERE pool_no IS NOT NULL) AS pool ON pool.pool_no = total.pool_no
