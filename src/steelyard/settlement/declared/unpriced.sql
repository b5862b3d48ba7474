-- What no line prices: by side, cluster, model, tenant and reason, on how many cards, how much and from when to when.
WITH model AS (
  SELECT cluster, device_uuid, max(model) AS model FROM dim.device GROUP BY cluster, device_uuid
),
missing AS (
  SELECT 'cost' AS side, cluster, place_id, device_uuid, NULL AS tenant, amount_gpu_us AS amount_us, grain_at, unpriced_reason
  FROM ledger.cost
  WHERE unpriced_reason IS NOT NULL
  UNION ALL
  SELECT 'charge', cluster, place_id, device_uuid, tenant, quantity_gpu_us, grain_at, unpriced_reason
  FROM ledger.charge
  WHERE unpriced_reason IS NOT NULL
)
SELECT
  missing.side, missing.cluster, model.model, missing.tenant, missing.unpriced_reason AS reason, count(DISTINCT missing.place_id) AS places_count,
  CAST(sum(missing.amount_us) AS BIGINT) AS amount_gpu_us, epoch_us(min(missing.grain_at)) AS first_at, epoch_us(max(missing.grain_at)) AS last_at
FROM missing
LEFT JOIN model ON model.cluster = missing.cluster AND model.device_uuid = missing.device_uuid
GROUP BY missing.side, missing.cluster, model.model, missing.tenant, missing.unpriced_reason
ORDER BY missing.side DESC, sum(missing.amount_us) DESC, missing.cluster, model.model, missing.tenant, missing.unpriced_reason
