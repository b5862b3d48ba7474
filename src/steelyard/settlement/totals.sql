-- What the rows of the period sum to, by what they say: one pass over each ledger for all that only needs sums.
SELECT
  total.*, tariff.ledger, tariff.line, tariff.price_id, tariff.currency, tariff.unpriced_reason, tariff.provisional, tariff.used_path
FROM (
  SELECT
    tariff_no, count(*) AS rows_count, count(charge_micro) AS priced_count, CAST(sum(quantity_gpu_us) AS BIGINT) AS amount_gpu_us,
    CAST(sum(charge_micro) AS BIGINT) AS money_micro
  FROM settling_charge
  GROUP BY tariff_no
  UNION ALL
  SELECT tariff_no, count(*), count(cost_micro), CAST(sum(amount_gpu_us) AS BIGINT), CAST(sum(cost_micro) AS BIGINT)
  FROM settling_cost
  GROUP BY tariff_no
) AS total
JOIN settling_tariff AS tariff ON tariff.tariff_no = total.tariff_no
