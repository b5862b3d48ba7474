-- Rows whose price is expected to be replaced, by price.
SELECT price_id, count(*) AS rows_count FROM settling_charge WHERE provisional AND charge_micro IS NOT NULL GROUP BY price_id ORDER BY 2 DESC, 1
