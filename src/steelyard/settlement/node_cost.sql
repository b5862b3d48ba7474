-- What each node and card cost by the book, by currency, over all accounts.
SELECT place.cluster, place.node, place.device_uuid, row.currency, CAST(sum(row.cost_micro) AS BIGINT) AS cost_micro
FROM settling_cost AS row
JOIN settling_place AS place ON place.place_no = row.place_no
WHERE row.cost_micro IS NOT NULL
GROUP BY place.cluster, place.node, place.device_uuid, row.currency
ORDER BY ALL
