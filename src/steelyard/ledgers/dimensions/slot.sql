-- Who sat in which slot from when to when: one row per unbroken stay. valid_to_at is the last sighting before another card sat there.
WITH turns AS (
  SELECT
    cluster, node, slot, occurred_at, device_uuid,
    CASE
      WHEN lag(device_uuid) OVER (PARTITION BY cluster, node, slot ORDER BY occurred_at, device_uuid) = device_uuid THEN 0
      ELSE 1
    END AS turn
  FROM (
    SELECT DISTINCT cluster, node, slot, occurred_at, device_uuid
    FROM dim.device_sighting
    WHERE slot IS NOT NULL
  ) AS seats
),
stays AS (
  SELECT
    cluster, node, slot, device_uuid, occurred_at,
    sum(turn) OVER (
      PARTITION BY cluster, node, slot ORDER BY occurred_at, device_uuid ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS stay
  FROM turns
),
spans AS (
  SELECT cluster, node, slot, device_uuid, stay, min(occurred_at) AS valid_from_at, max(occurred_at) AS last_seen_at
  FROM stays
  GROUP BY cluster, node, slot, device_uuid, stay
)
SELECT
  cluster, node, slot, device_uuid, valid_from_at,
  CASE
    WHEN lead(device_uuid) OVER (PARTITION BY cluster, node, slot ORDER BY valid_from_at, device_uuid) IS NOT NULL
      THEN last_seen_at
  END AS valid_to_at,
  last_seen_at
FROM spans
