-- How much of the supply of a period was seen, in GPU-time: all of it, and what is in nobody's account because nothing was seen.
SELECT CAST(coalesce(sum(amount_gpu_us), 0) AS BIGINT), CAST(coalesce(sum(amount_gpu_us) FILTER (WHERE line = 'unobserved'), 0) AS BIGINT)
FROM settling_total
WHERE ledger = 'cost'
