-- Stretches of each pool in which nothing of the sums over its members changes. A sum is NULL while it is not known of one of them, and the stretch is left out
-- while one of them is silent between its first word and its last: a pool of which a part was not seen was not seen. A member that has no quota
-- and tells nothing else has nothing to add, and nothing is missing after it. pending is the sum over members; idle of the pool is what all of them leave, what some
-- take above their own taken off.
WITH
member AS (
  SELECT
    pool_no, key_no, from_us, to_us, nominal_milli, reserved_milli, used_milli, borrowed_milli, over_nominal_milli, reserved_not_used_milli,
    leaked_milli, pending_milli, idle_milli,
    nominal_milli = 0 AND used_milli IS NULL AND reserved_milli IS NULL AND pending_milli IS NULL AND idle_milli IS NULL AS is_nothing
  FROM dim.quota_span
  WHERE pool_no IS NOT NULL
),
change AS (
  SELECT
    pool_no, CASE edge WHEN 1 THEN from_us ELSE to_us END AS at_us, edge AS speaking, 0 AS silent,
    edge * nominal_milli AS nominal_milli, edge * reserved_milli AS reserved_milli, edge * used_milli AS used_milli,
    edge * borrowed_milli AS borrowed_milli, edge * over_nominal_milli AS over_nominal_milli,
    edge * reserved_not_used_milli AS reserved_not_used_milli, edge * leaked_milli AS leaked_milli, edge * pending_milli AS pending_milli,
    edge * idle_milli AS idle_milli,
    CASE WHEN nominal_milli IS NULL THEN edge ELSE 0 END AS nominal_unknown,
    CASE WHEN reserved_milli IS NULL AND NOT coalesce(is_nothing, FALSE) THEN edge ELSE 0 END AS reserved_unknown,
    CASE WHEN used_milli IS NULL AND NOT coalesce(is_nothing, FALSE) THEN edge ELSE 0 END AS used_unknown,
    CASE WHEN borrowed_milli IS NULL AND NOT coalesce(is_nothing, FALSE) THEN edge ELSE 0 END AS above_unknown,
    CASE WHEN reserved_not_used_milli IS NULL AND NOT coalesce(is_nothing, FALSE) THEN edge ELSE 0 END AS not_used_unknown,
    CASE WHEN leaked_milli IS NULL AND NOT coalesce(is_nothing, FALSE) THEN edge ELSE 0 END AS leaked_unknown,
    CASE WHEN pending_milli IS NULL AND NOT coalesce(is_nothing, FALSE) THEN edge ELSE 0 END AS pending_unknown,
    CASE WHEN idle_milli IS NULL AND NOT coalesce(is_nothing, FALSE) THEN edge ELSE 0 END AS idle_unknown
  FROM member
  CROSS JOIN (SELECT 1 AS edge UNION ALL SELECT -1) AS edges
),
-- From the end of a member's word to its next one it is silent.
silence AS (
  SELECT pool_no, to_us AS from_us, next_us AS to_us
  FROM (SELECT *, lead(from_us) OVER (PARTITION BY key_no ORDER BY from_us) AS next_us FROM member) AS followed
  WHERE next_us > to_us AND NOT coalesce(is_nothing, FALSE)
),
changed AS (
  SELECT * FROM change
  UNION ALL
  SELECT
    pool_no, CASE edge WHEN 1 THEN from_us ELSE to_us END, 0, edge, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
  FROM silence
  CROSS JOIN (SELECT 1 AS edge UNION ALL SELECT -1) AS edges
),
step AS (
  SELECT
    pool_no, at_us, sum(speaking) AS speaking, sum(silent) AS silent, sum(nominal_milli) AS nominal_milli, sum(reserved_milli) AS reserved_milli,
    sum(used_milli) AS used_milli, sum(borrowed_milli) AS borrowed_milli, sum(over_nominal_milli) AS over_nominal_milli,
    sum(reserved_not_used_milli) AS reserved_not_used_milli, sum(leaked_milli) AS leaked_milli, sum(pending_milli) AS pending_milli,
    sum(idle_milli) AS idle_milli, sum(nominal_unknown) AS nominal_unknown, sum(reserved_unknown) AS reserved_unknown,
    sum(used_unknown) AS used_unknown, sum(above_unknown) AS above_unknown, sum(not_used_unknown) AS not_used_unknown,
    sum(leaked_unknown) AS leaked_unknown, sum(pending_unknown) AS pending_unknown, sum(idle_unknown) AS idle_unknown
  FROM changed
  GROUP BY pool_no, at_us
),
level AS (
  SELECT
    pool_no, at_us AS from_us, lead(at_us) OVER pool AS to_us,
    sum(speaking) OVER pool AS speaking, sum(silent) OVER pool AS silent,
    sum(nominal_milli) OVER pool AS nominal_milli, sum(reserved_milli) OVER pool AS reserved_milli, sum(used_milli) OVER pool AS used_milli,
    sum(borrowed_milli) OVER pool AS borrowed_milli, sum(over_nominal_milli) OVER pool AS over_nominal_milli,
    sum(reserved_not_used_milli) OVER pool AS reserved_not_used_milli, sum(leaked_milli) OVER pool AS leaked_milli,
    sum(pending_milli) OVER pool AS pending_milli, sum(idle_milli) OVER pool AS idle_milli, sum(nominal_unknown) OVER pool AS nominal_unknown,
    sum(reserved_unknown) OVER pool AS reserved_unknown, sum(used_unknown) OVER pool AS used_unknown,
    sum(above_unknown) OVER pool AS above_unknown, sum(not_used_unknown) OVER pool AS not_used_unknown,
    sum(leaked_unknown) OVER pool AS leaked_unknown, sum(pending_unknown) OVER pool AS pending_unknown,
    sum(idle_unknown) OVER pool AS idle_unknown
  FROM step
  WINDOW pool AS (PARTITION BY pool_no ORDER BY at_us)
)
SELECT
  pool_no, from_us, to_us,
  CASE WHEN nominal_unknown = 0 THEN CAST(nominal_milli AS BIGINT) END AS nominal_milli,
  CASE WHEN reserved_unknown = 0 THEN CAST(reserved_milli AS BIGINT) END AS reserved_milli,
  CASE WHEN used_unknown = 0 THEN CAST(used_milli AS BIGINT) END AS used_milli,
  CASE WHEN above_unknown = 0 THEN CAST(borrowed_milli AS BIGINT) END AS borrowed_milli,
  CASE WHEN above_unknown = 0 THEN CAST(over_nominal_milli AS BIGINT) END AS over_nominal_milli,
  CASE WHEN not_used_unknown = 0 THEN CAST(reserved_not_used_milli AS BIGINT) END AS reserved_not_used_milli,
  CASE WHEN leaked_unknown = 0 THEN CAST(leaked_milli AS BIGINT) END AS leaked_milli,
  CASE WHEN pending_unknown = 0 THEN CAST(pending_milli AS BIGINT) END AS pending_milli,
  CASE WHEN idle_unknown = 0 THEN CAST(idle_milli AS BIGINT) END AS idle_milli
FROM level
WHERE speaking > 0 AND silent = 0 AND to_us > from_us
