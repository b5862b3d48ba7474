-- The trial balance: GPU-time and money by account of the cost ledger and currency.
SELECT
  account, currency, count(*) AS rows_count, CAST(sum(amount_gpu_us) AS BIGINT) AS amount_gpu_us, CAST(sum(cost_micro) AS BIGINT) AS cost_micro,
  CAST(coalesce(sum(amount_gpu_us) FILTER (WHERE cost_micro IS NULL), 0) AS BIGINT) AS unpriced_gpu_us
FROM settling_cost
GROUP BY account, currency
ORDER BY account, currency
