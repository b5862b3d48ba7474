-- What this posting run goes by: the settings as one row, and the instant as of which the facts speak.
-- horizon_at: a day after the latest observation, to the end of that hour. What is stamped later comes from a broken clock and is evidence of no time; that a file was
-- read is none either. history_from_at: as long before as_of_at as the settings allow, from the start of that hour; what is stamped earlier is evidence of no time either.
WITH
horizon AS (
  SELECT date_trunc('hour', max(seen_at) + INTERVAL 1 DAY) + INTERVAL 1 HOUR - INTERVAL 1 MICROSECOND AS horizon_at
  FROM (
    SELECT max(observed_at) AS seen_at FROM fact.source_status
    UNION ALL
    SELECT max(observed_at) FROM fact.sighting
    UNION ALL
    SELECT max(observed_at) FROM fact.device_sample
    UNION ALL
    SELECT max(observed_at) FROM fact.process_sample
    UNION ALL
    SELECT max(observed_at) FROM fact.request
    UNION ALL
    SELECT max(observed_at) FROM fact."grant"
    UNION ALL
    SELECT max(observed_at) FROM fact.device
    UNION ALL
    SELECT max(observed_at) FROM fact.node
    UNION ALL
    SELECT max(observed_at) FROM fact.quota
    UNION ALL
    SELECT max(observed_at) FROM fact.gang
  ) AS observation
),
-- The latest sample is read off the statistics of the blocks; only where it is stamped beyond the horizon is every sample looked at.
latest_device_sample AS (
  SELECT max(occurred_at) AS seen_at FROM fact.device_sample
),
latest_process_sample AS (
  SELECT max(occurred_at) AS seen_at FROM fact.process_sample
),
device_sampled AS (
  SELECT seen_at
  FROM latest_device_sample
  CROSS JOIN horizon
  WHERE seen_at <= horizon_at
  UNION ALL
  SELECT max(sample.occurred_at)
  FROM fact.device_sample AS sample
  JOIN (SELECT horizon_at FROM horizon CROSS JOIN latest_device_sample WHERE seen_at > horizon_at) AS bound
    ON sample.occurred_at <= bound.horizon_at
),
process_sampled AS (
  SELECT seen_at
  FROM latest_process_sample
  CROSS JOIN horizon
  WHERE seen_at <= horizon_at
  UNION ALL
  SELECT max(sample.occurred_at)
  FROM fact.process_sample AS sample
  JOIN (SELECT horizon_at FROM horizon CROSS JOIN latest_process_sample WHERE seen_at > horizon_at) AS bound
    ON sample.occurred_at <= bound.horizon_at
),
speaking AS (
  SELECT
    coalesce(
      (
        SELECT max(seen_at)
        FROM (
          SELECT max(coalesce(observed_to_at, occurred_at)) AS seen_at
          FROM fact.source_status
          WHERE status <> 'failed' AND coalesce(observed_to_at, occurred_at) <= (SELECT horizon_at FROM horizon)
          UNION ALL
          SELECT max(occurred_at) FROM fact.sighting WHERE occurred_at <= (SELECT horizon_at FROM horizon)
          UNION ALL
          SELECT seen_at FROM device_sampled
          UNION ALL
          SELECT seen_at FROM process_sampled
        ) AS rounds
      ),
      (
        SELECT max(seen_at)
        FROM (
          SELECT max(occurred_at) AS seen_at FROM fact.request WHERE occurred_at <= (SELECT horizon_at FROM horizon)
          UNION ALL
          SELECT max(occurred_at) FROM fact."grant" WHERE occurred_at <= (SELECT horizon_at FROM horizon)
          UNION ALL
          SELECT max(occurred_at) FROM fact.device WHERE occurred_at <= (SELECT horizon_at FROM horizon)
          UNION ALL
          SELECT max(occurred_at) FROM fact.node WHERE occurred_at <= (SELECT horizon_at FROM horizon)
          UNION ALL
          SELECT max(occurred_at) FROM fact.quota WHERE occurred_at <= (SELECT horizon_at FROM horizon)
          UNION ALL
          SELECT max(occurred_at) FROM fact.gang WHERE occurred_at <= (SELECT horizon_at FROM horizon)
        ) AS objects
      ),
      (
        SELECT max(seen_at)
        FROM (
          SELECT max(occurred_at) AS seen_at FROM fact.inventory_basis
          UNION ALL
          SELECT max(occurred_at) FROM fact.event
          UNION ALL
          SELECT max(occurred_at) FROM fact.metric_sample
        ) AS papers
      )
    ) AS as_of_at
)
SELECT
  CAST($grain_us AS BIGINT) AS grain_us,
  CAST($floor_by_slots AS BOOLEAN) AS floor_by_slots,
  CAST($weight_default_ppm AS BIGINT) AS weight_default_ppm,
  CAST($leak_grace_us AS BIGINT) AS leak_grace_us,
  CAST($wait_ceiling_us AS BIGINT) AS wait_ceiling_us,
  horizon.horizon_at,
  speaking.as_of_at,
  date_trunc('hour', make_timestamp(epoch_us(speaking.as_of_at) - CAST($history_days_max AS BIGINT) * 86400000000)) AS history_from_at
FROM speaking
CROSS JOIN horizon
