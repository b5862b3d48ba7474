-- What each pod and account cost on each day (UTC), in whole grains; see cost_changes.py.

-- name: daily_costs
SELECT
    cluster, place_kind, place_id, node, device_uuid, account, pod_uid, CAST(NULL AS VARCHAR) AS unit_id, owner, currency,
    epoch_us(date_trunc('day', grain_at)) AS day_us, sum(amount_gpu_us) AS amount_gpu_us, sum(cost_micro) AS cost_micro
FROM ledger.cost
WHERE grain_at >= make_timestamp($from_us)
    AND grain_at < make_timestamp($to_us)
    AND cost_micro IS NOT NULL
GROUP BY cluster, place_kind, place_id, node, device_uuid, account, pod_uid, owner, currency, date_trunc('day', grain_at);
