-- What no price names, by book side and reason.
SELECT ledger AS side, unpriced_reason, CAST(sum(rows_count - priced_count) AS BIGINT) AS rows_count, CAST(sum(amount_gpu_us) AS BIGINT) AS amount_gpu_us
FROM settling_total
WHERE priced_count < rows_count AND amount_gpu_us <> 0
GROUP BY ledger, unpriced_reason
ORDER BY side, amount_gpu_us DESC, unpriced_reason
