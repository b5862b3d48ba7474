-- The trial balance: GPU-time and money by account of the cost ledger and currency.
SELECT
  line AS account, currency, CAST(sum(rows_count) AS BIGINT) AS rows_count, CAST(sum(amount_gpu_us) AS BIGINT) AS amount_gpu_us,
  CAST(sum(money_micro) AS BIGINT) AS cost_micro, CAST(coalesce(sum(amount_gpu_us) FILTER (WHERE priced_count < rows_count), 0) AS BIGINT) AS unpriced_gpu_us
FROM settling_total
WHERE ledger = 'cost'
GROUP BY line, currency
ORDER BY line, currency
