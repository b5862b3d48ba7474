-- What each tenant was asked for beside what its part cost, by currency; NULL where a side has nothing in it; what has no price is left out, and told.
WITH charged AS (
  SELECT
    row.holder_no, tariff.currency, sum(row.charge_micro) AS charge_micro, sum(row.quantity_gpu_us) FILTER (WHERE tariff.line = 'grant') AS quantity_gpu_us,
    bool_or(row.charge_micro IS NULL) AS is_unpriced
  FROM settling_charge AS row
  JOIN settling_tariff AS tariff ON tariff.tariff_no = row.tariff_no
  GROUP BY row.holder_no, tariff.currency
),
costed AS (
  SELECT row.holder_no, tariff.currency, sum(row.cost_micro) AS cost_micro, bool_or(row.cost_micro IS NULL) AS is_unpriced
  FROM settling_cost AS row
  JOIN settling_tariff AS tariff ON tariff.tariff_no = row.tariff_no
  WHERE tariff.line IN ('tenant', 'reserved_unused')
  GROUP BY row.holder_no, tariff.currency
),
sides AS (
  SELECT holder_no, currency, charge_micro, quantity_gpu_us, CAST(NULL AS HUGEINT) AS cost_micro, is_unpriced AS charge_unpriced, FALSE AS cost_unpriced FROM charged
  UNION ALL
  SELECT holder_no, currency, NULL, NULL, cost_micro, FALSE, is_unpriced FROM costed
)
SELECT
  pod.tenant, sides.currency, CAST(sum(sides.charge_micro) AS BIGINT) AS charge_micro, CAST(sum(sides.cost_micro) AS BIGINT) AS cost_micro,
  CAST(coalesce(sum(sides.quantity_gpu_us), 0) AS BIGINT) AS quantity_gpu_us, bool_or(sides.charge_unpriced) AS charge_unpriced,
  bool_or(sides.cost_unpriced) AS cost_unpriced
FROM sides
JOIN settling_pod AS pod ON pod.holder_no = sides.holder_no AND pod.epoch_no = 0
WHERE pod.tenant IS NOT NULL
GROUP BY pod.tenant, sides.currency
ORDER BY pod.tenant, sides.currency
