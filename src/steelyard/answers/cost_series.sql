-- What monitoring is told of money: the last day that is booked; see cost_series.py.

-- name: costs
SELECT cluster, account, currency, CAST(sum(cost_micro) AS DECIMAL(38, 0)) AS cost_micro
FROM ledger.cost
WHERE grain_at > (SELECT max(grain_at) FROM ledger.cost) - INTERVAL 1 DAY AND cost_micro IS NOT NULL
GROUP BY cluster, account, currency
ORDER BY cluster, account, currency;

-- name: unpriced
SELECT cluster, 'cost' AS side, unpriced_reason, CAST(sum(amount_gpu_us) AS DECIMAL(38, 0)) AS amount_gpu_us
FROM ledger.cost
WHERE grain_at > (SELECT max(grain_at) FROM ledger.cost) - INTERVAL 1 DAY AND cost_micro IS NULL
GROUP BY cluster, unpriced_reason
UNION ALL
SELECT cluster, 'charge', unpriced_reason, CAST(sum(quantity_gpu_us) AS DECIMAL(38, 0))
FROM ledger.charge
WHERE grain_at > (SELECT max(grain_at) FROM ledger.charge) - INTERVAL 1 DAY AND charge_micro IS NULL
GROUP BY cluster, unpriced_reason
ORDER BY cluster, side, unpriced_reason;
