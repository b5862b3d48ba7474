-- What no price names, by book side and reason.
SELECT 'charge' AS side, unpriced_reason, count(*) AS rows_count, CAST(sum(quantity_gpu_us) AS BIGINT) AS amount_gpu_us
FROM settling_charge
WHERE charge_micro IS NULL
GROUP BY unpriced_reason
UNION ALL
SELECT 'cost', unpriced_reason, count(*), CAST(sum(amount_gpu_us) AS BIGINT)
FROM settling_cost
WHERE cost_micro IS NULL AND amount_gpu_us <> 0
GROUP BY unpriced_reason
ORDER BY side, amount_gpu_us DESC, unpriced_reason
