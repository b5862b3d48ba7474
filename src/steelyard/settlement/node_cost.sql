-- What each node and card cost by the book, by currency, over all accounts.
WITH summed AS (
  SELECT place_no, tariff_no, CAST(sum(cost_micro) AS BIGINT) AS cost_micro FROM settling_cost WHERE cost_micro IS NOT NULL GROUP BY place_no, tariff_no
)
SELECT place.cluster, place.node, place.device_uuid, tariff.currency, CAST(sum(summed.cost_micro) AS BIGINT) AS cost_micro
FROM summed
JOIN settling_place AS place ON place.place_no = summed.place_no
JOIN settling_tariff AS tariff ON tariff.tariff_no = summed.tariff_no
GROUP BY place.cluster, place.node, place.device_uuid, tariff.currency
ORDER BY ALL
