-- The currencies in which each tenant was charged, by price.
WITH charged AS (
  SELECT DISTINCT holder_no, tariff_no FROM settling_charge WHERE charge_micro IS NOT NULL
)
SELECT DISTINCT holder.tenant, tariff.currency
FROM charged
JOIN (SELECT holder_no, tenant FROM settling_pod WHERE epoch_no = 0 AND tenant IS NOT NULL) AS holder ON holder.holder_no = charged.holder_no
JOIN settling_tariff AS tariff ON tariff.tariff_no = charged.tariff_no
WHERE tariff.currency IS NOT NULL
ORDER BY ALL
