-- What our own books know of each key over time, as stretches (from_us, to_us) in which it stays the same; NULL where it is not theirs to tell.
WITH
change AS (
  SELECT
    key_no, CASE edge WHEN 1 THEN from_us ELSE to_us END AS at_us,
    CASE WHEN what = 'known' THEN edge ELSE 0 END AS known, CASE WHEN what = 'known_waiting' THEN edge ELSE 0 END AS known_waiting,
    CASE WHEN what = 'held' THEN edge * milli ELSE 0 END AS held_milli, CASE WHEN what = 'leaked' THEN edge * milli ELSE 0 END AS leaked_milli,
    CASE WHEN what = 'waiting' THEN edge * milli ELSE 0 END AS waiting_milli,
    CASE WHEN what = 'leaked' AND milli IS NULL THEN edge ELSE 0 END AS leaked_unknown,
    CASE WHEN what = 'waiting' AND milli IS NULL THEN edge ELSE 0 END AS waiting_unknown
  FROM dim.quota_interval
  CROSS JOIN (SELECT 1 AS edge UNION ALL SELECT -1) AS edges
  WHERE to_us > from_us
),
step AS (
  SELECT
    key_no, at_us, sum(known) AS known, sum(known_waiting) AS known_waiting, sum(held_milli) AS held_milli, sum(leaked_milli) AS leaked_milli,
    sum(waiting_milli) AS waiting_milli, sum(leaked_unknown) AS leaked_unknown, sum(waiting_unknown) AS waiting_unknown
  FROM change
  GROUP BY key_no, at_us
),
level AS (
  SELECT
    key_no, at_us AS from_us, lead(at_us) OVER same_key AS to_us, sum(known) OVER same_key AS known,
    sum(known_waiting) OVER same_key AS known_waiting, sum(held_milli) OVER same_key AS held_milli,
    sum(leaked_milli) OVER same_key AS leaked_milli, sum(waiting_milli) OVER same_key AS waiting_milli,
    sum(leaked_unknown) OVER same_key AS leaked_unknown, sum(waiting_unknown) OVER same_key AS waiting_unknown
  FROM step
  WINDOW same_key AS (PARTITION BY key_no ORDER BY at_us)
)
SELECT
  key_no, from_us, to_us,
  CASE WHEN known > 0 THEN CAST(held_milli AS BIGINT) END AS held_milli,
  CASE WHEN known > 0 AND leaked_unknown = 0 THEN CAST(coalesce(leaked_milli, 0) AS BIGINT) END AS leaked_milli,
  CASE WHEN known_waiting > 0 AND waiting_unknown = 0 THEN CAST(coalesce(waiting_milli, 0) AS BIGINT) END AS waiting_milli
FROM level
WHERE to_us > from_us AND (known > 0 OR known_waiting > 0)
