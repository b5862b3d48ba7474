-- What our own books know of each key over time: what pods hold, what is leaked, what waits. Keys of which they know nothing have no row.
SELECT
  CAST(NULL AS BIGINT) AS key_no, CAST(NULL AS BIGINT) AS from_us, CAST(NULL AS BIGINT) AS to_us, CAST(NULL AS BIGINT) AS held_milli,
  CAST(NULL AS BIGINT) AS leaked_milli, CAST(NULL AS BIGINT) AS waiting_milli
WHERE FALSE
