-- What each tenant was charged for each grain, by currency.
WITH summed AS (
  SELECT holder.tenant, row.tariff_no, row.grain_at, CAST(sum(row.charge_micro) AS BIGINT) AS charge_micro
  FROM settling_charge AS row
  JOIN (SELECT holder_no, tenant FROM settling_pod WHERE epoch_no = 0) AS holder ON holder.holder_no = row.holder_no
  WHERE row.charge_micro IS NOT NULL
  GROUP BY ALL
)
SELECT summed.tenant, tariff.currency, epoch_us(summed.grain_at), CAST(sum(summed.charge_micro) AS BIGINT)
FROM summed
JOIN settling_tariff AS tariff ON tariff.tariff_no = summed.tariff_no
GROUP BY ALL
ORDER BY ALL
