-- What this posting run goes by: the settings as one row, and the instant as of which the facts speak.
-- horizon_at: a day after the latest observation, to the end of that hour. What is stamped later comes from a broken clock and is evidence of no time; that a file was
-- read is none either. history_from_at: as long before as_of_at as the settings allow, from the start of that hour; what is stamped earlier is evidence of no time either.
-- ahead_at: the latest of what does not count so; clock_behind_at: this server's clock, where what it observed itself lies more than a day after it.
-- What an agent observed is dated by its node's clock: where that lies more than a day after now ($now_us, this server's clock; NULL: nothing is bound), it moves no
-- instant here, unless there is nothing else. Everything else is dated by this server, so its clock may be set back without anything going dark.
WITH
latest AS (
  SELECT max(seen_at) AS seen_at
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
bound AS (
  SELECT make_timestamp(CAST($now_us AS BIGINT) + 86400000000) AS limit_at
  FROM latest
  WHERE seen_at > make_timestamp(CAST($now_us AS BIGINT) + 86400000000)
),
-- Row by row only where something is observed beyond the bound; else the statistics of the blocks have said it.
counted AS (
  SELECT max(seen_at) AS seen_at
  FROM (
    SELECT max(sight.observed_at) AS seen_at
    FROM fact.source_status AS sight
    JOIN bound ON sight.observed_at <= bound.limit_at OR sight.source NOT IN ('agent', 'kernel_log', 'pod_resources')
    UNION ALL
    SELECT max(sight.observed_at)
    FROM fact.sighting AS sight
    JOIN bound ON sight.observed_at <= bound.limit_at OR sight.source NOT IN ('agent', 'kernel_log', 'pod_resources')
    UNION ALL
    SELECT max(sight.observed_at)
    FROM fact.device_sample AS sight
    JOIN bound ON sight.observed_at <= bound.limit_at OR sight.source NOT IN ('agent', 'kernel_log', 'pod_resources')
    UNION ALL
    SELECT max(sight.observed_at)
    FROM fact.process_sample AS sight
    JOIN bound ON sight.observed_at <= bound.limit_at OR sight.source NOT IN ('agent', 'kernel_log', 'pod_resources')
    UNION ALL
    SELECT max(sight.observed_at)
    FROM fact.request AS sight
    JOIN bound ON sight.observed_at <= bound.limit_at OR sight.source NOT IN ('agent', 'kernel_log', 'pod_resources')
    UNION ALL
    SELECT max(sight.observed_at)
    FROM fact."grant" AS sight
    JOIN bound ON sight.observed_at <= bound.limit_at OR sight.source NOT IN ('agent', 'kernel_log', 'pod_resources')
    UNION ALL
    SELECT max(sight.observed_at)
    FROM fact.device AS sight
    JOIN bound ON sight.observed_at <= bound.limit_at OR sight.source NOT IN ('agent', 'kernel_log', 'pod_resources')
    UNION ALL
    SELECT max(sight.observed_at)
    FROM fact.node AS sight
    JOIN bound ON sight.observed_at <= bound.limit_at OR sight.source NOT IN ('agent', 'kernel_log', 'pod_resources')
    UNION ALL
    SELECT max(sight.observed_at)
    FROM fact.quota AS sight
    JOIN bound ON sight.observed_at <= bound.limit_at OR sight.source NOT IN ('agent', 'kernel_log', 'pod_resources')
    UNION ALL
    SELECT max(sight.observed_at)
    FROM fact.gang AS sight
    JOIN bound ON sight.observed_at <= bound.limit_at OR sight.source NOT IN ('agent', 'kernel_log', 'pod_resources')
  ) AS observation
),
observed AS (
  SELECT latest.seen_at AS latest_at, coalesce(counted.seen_at, latest.seen_at) AS seen_at, bound.limit_at
  FROM latest
  CROSS JOIN counted
  LEFT JOIN bound ON TRUE
),
horizon AS (
  SELECT
    date_trunc('hour', seen_at + INTERVAL 1 DAY) + INTERVAL 1 HOUR - INTERVAL 1 MICROSECOND AS horizon_at,
    CASE WHEN latest_at > seen_at THEN latest_at END AS ahead_at,
    CASE WHEN seen_at > limit_at THEN limit_at - INTERVAL 1 DAY END AS clock_behind_at
  FROM observed
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
  horizon.ahead_at,
  horizon.clock_behind_at,
  speaking.as_of_at,
  date_trunc('hour', make_timestamp(epoch_us(speaking.as_of_at) - CAST($history_days_max AS BIGINT) * 86400000000)) AS history_from_at
FROM speaking
CROSS JOIN horizon
