-- Rows whose price is expected to be replaced, by price.
SELECT price_id, CAST(sum(priced_count) AS BIGINT) AS rows_count
FROM settling_total
WHERE provisional AND ledger = 'charge' AND priced_count > 0
GROUP BY price_id
ORDER BY 2 DESC, 1
