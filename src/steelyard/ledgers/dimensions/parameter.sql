-- What this posting run goes by: the settings as one row, and the instant as of which the facts speak.
SELECT
  CAST($grain_us AS BIGINT) AS grain_us,
  CAST($floor_by_slots AS BOOLEAN) AS floor_by_slots,
  CAST($weight_default_ppm AS BIGINT) AS weight_default_ppm,
  coalesce(
    (
      SELECT max(seen_at)
      FROM (
        SELECT max(coalesce(observed_to_at, occurred_at)) AS seen_at FROM fact.source_status WHERE status <> 'failed'
        UNION ALL
        SELECT max(occurred_at) FROM fact.import_file
        UNION ALL
        SELECT max(occurred_at) FROM fact.sighting
        UNION ALL
        SELECT max(occurred_at) FROM fact.device_sample
        UNION ALL
        SELECT max(occurred_at) FROM fact.process_sample
      ) AS rounds
    ),
    (
      SELECT max(seen_at)
      FROM (
        SELECT max(occurred_at) AS seen_at FROM fact.request
        UNION ALL
        SELECT max(occurred_at) FROM fact."grant"
        UNION ALL
        SELECT max(occurred_at) FROM fact.device
        UNION ALL
        SELECT max(occurred_at) FROM fact.node
      ) AS objects
    )
  ) AS as_of_at
