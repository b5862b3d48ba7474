-- What each tenant was asked for beside what its part cost, by currency.
WITH charged AS (
  SELECT row.holder_no, tariff.currency, sum(row.charge_micro) AS charge_micro, sum(row.quantity_gpu_us) FILTER (WHERE tariff.line = 'grant') AS quantity_gpu_us
  FROM settling_charge AS row
  JOIN settling_tariff AS tariff ON tariff.tariff_no = row.tariff_no
  GROUP BY row.holder_no, tariff.currency
),
costed AS (
  SELECT row.holder_no, tariff.currency, sum(row.cost_micro) AS cost_micro
  FROM settling_cost AS row
  JOIN settling_tariff AS tariff ON tariff.tariff_no = row.tariff_no
  WHERE tariff.line IN ('tenant', 'reserved_unused')
  GROUP BY row.holder_no, tariff.currency
),
sides AS (
  SELECT holder_no, currency, charge_micro, quantity_gpu_us, CAST(NULL AS HUGEINT) AS cost_micro FROM charged
  UNION ALL
  SELECT holder_no, currency, NULL, NULL, cost_micro FROM costed
)
SELECT
  pod.tenant, sides.currency, CAST(coalesce(sum(sides.charge_micro), 0) AS BIGINT) AS charge_micro,
  CAST(coalesce(sum(sides.cost_micro), 0) AS BIGINT) AS cost_micro, CAST(coalesce(sum(sides.quantity_gpu_us), 0) AS BIGINT) AS quantity_gpu_us
FROM sides
JOIN settling_pod AS pod ON pod.holder_no = sides.holder_no AND pod.epoch_no = 0
WHERE pod.tenant IS NOT NULL
GROUP BY pod.tenant, sides.currency
ORDER BY pod.tenant, sides.currency
