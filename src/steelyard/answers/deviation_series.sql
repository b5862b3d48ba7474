-- What monitoring is told of deviations, as of the last posting.

-- name: deviation
-- Of cards: the last word of both sides. counted_less_device: what the layer counts less what the device has in use; scheduler_less_granted: what the
-- scheduler's exporter shows as allocated less what living pods were granted.
WITH last_word AS (
  SELECT
    cluster, device_uuid, arg_max(counted_last_mib, grain_at) AS counted_mib, arg_max(device_last_mib, grain_at) AS device_mib
  FROM ledger.deviation
  WHERE pod_uid IS NULL AND last_at IS NOT NULL AND grain_at >= (SELECT as_of_at - INTERVAL 2 HOUR FROM dim.parameter)
  GROUP BY cluster, device_uuid
),
granted AS (
  SELECT cluster, device_uuid, sum(pod_memory_mib) AS granted_mib
  FROM dim.deviation_held
  WHERE is_first AND occupancy = 'held'
  GROUP BY cluster, device_uuid
)
SELECT cluster, 'counted_less_device' AS kind, CAST(sum(counted_mib - device_mib) AS BIGINT) AS mib
FROM last_word
WHERE counted_mib IS NOT NULL AND device_mib IS NOT NULL
GROUP BY cluster
UNION ALL
SELECT now.cluster, 'scheduler_less_granted', CAST(sum(now.allocated_mib - coalesce(granted.granted_mib, 0)) AS BIGINT)
FROM dim.deviation_now AS now
LEFT JOIN granted ON granted.cluster = now.cluster AND granted.device_uuid = now.device_uuid
WHERE now.origin = 'scheduler' AND now.standing = 'card' AND now.is_current AND now.allocated_mib IS NOT NULL
GROUP BY now.cluster
ORDER BY cluster, kind;

-- name: deviation_findings
SELECT cluster, code, count(*) AS findings
FROM ledger.finding
WHERE source = 'ledger.deviation'
GROUP BY cluster, code
ORDER BY cluster, code;
