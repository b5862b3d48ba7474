-- Rows of a closed period as its snapshot has them (sign -1) beside what a ledger says now (sign 1), in the grains in which the ledger changed since. What
-- differs, by place, holder, line and currency. late: the amount of GPU-time differs, so facts did; else only what it is worth does.
WITH sides AS (
  SELECT place_no, holder_no, grain_at, line, currency, 1 AS sign, quantity_gpu_us, list_micro, discount_micro, amount_micro FROM settling_now
  UNION ALL
  SELECT place_no, holder_no, grain_at, line, currency, -1, quantity_gpu_us, list_micro, discount_micro, amount_micro FROM settling_was
),
summed AS (
  SELECT
    place_no, holder_no, grain_at, line, currency, CAST(sum(sign * quantity_gpu_us) AS BIGINT) AS quantity_gpu_us,
    CAST(coalesce(sum(sign * list_micro), 0) AS BIGINT) AS list_micro, CAST(coalesce(sum(sign * discount_micro), 0) AS BIGINT) AS discount_micro,
    CAST(coalesce(sum(sign * amount_micro), 0) AS BIGINT) AS amount_micro,
    count(amount_micro) FILTER (WHERE sign = 1) AS priced_now, count(amount_micro) FILTER (WHERE sign = -1) AS priced_then
  FROM sides
  GROUP BY place_no, holder_no, grain_at, line, currency
),
judged AS (
  SELECT *, sum(quantity_gpu_us) OVER (PARTITION BY place_no, holder_no, grain_at, line) <> 0 AS late FROM summed
)
SELECT
  place_no, holder_no, line, currency, late, epoch_us(min(grain_at)) AS from_us, epoch_us(max(grain_at)) AS last_us,
  CAST(sum(quantity_gpu_us) AS BIGINT) AS quantity_gpu_us, CAST(sum(list_micro) AS BIGINT) AS list_micro,
  CAST(sum(discount_micro) AS BIGINT) AS discount_micro, CAST(sum(amount_micro) AS BIGINT) AS amount_micro
FROM judged
WHERE quantity_gpu_us <> 0 OR list_micro <> 0 OR discount_micro <> 0 OR amount_micro <> 0 OR priced_now <> priced_then
GROUP BY place_no, holder_no, line, currency, late
