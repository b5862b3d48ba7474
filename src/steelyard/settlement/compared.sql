-- Rows of a closed period as its snapshot has them (sign -1) beside what a ledger says now (sign 1), in the grains in which the ledger changed since. What
-- differs, by place, holder, line and currency. late: the amount of GPU-time differs, so facts did; else only what it is worth does. unpriced: of this
-- place, holder and line something differs that has no price now, so nobody can tell by how much.
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
    count(amount_micro) FILTER (WHERE sign = 1) AS priced_now, count(amount_micro) FILTER (WHERE sign = -1) AS priced_then,
    coalesce(bool_or(amount_micro IS NULL AND quantity_gpu_us <> 0) FILTER (WHERE sign = 1), FALSE) AS unpriced_now
  FROM sides
  GROUP BY place_no, holder_no, grain_at, line, currency
),
differing AS (
  SELECT *, quantity_gpu_us <> 0 OR list_micro <> 0 OR discount_micro <> 0 OR amount_micro <> 0 OR priced_now <> priced_then AS differs FROM summed
),
judged AS (
  SELECT
    *, sum(quantity_gpu_us) OVER grain <> 0 AS late, bool_or(differs) OVER grain AND bool_or(unpriced_now) OVER grain AS unknown_now
  FROM differing
  WINDOW grain AS (PARTITION BY place_no, holder_no, grain_at, line)
),
held AS (
  SELECT *, bool_or(unknown_now) OVER (PARTITION BY place_no, holder_no, line) AS unpriced FROM judged
)
SELECT
  place_no, holder_no, line, currency, late, unpriced, epoch_us(min(grain_at)) AS from_us, epoch_us(max(grain_at)) AS last_us,
  CAST(sum(quantity_gpu_us) AS BIGINT) AS quantity_gpu_us, CAST(sum(list_micro) AS BIGINT) AS list_micro,
  CAST(sum(discount_micro) AS BIGINT) AS discount_micro, CAST(sum(amount_micro) AS BIGINT) AS amount_micro
FROM held
WHERE differs
GROUP BY place_no, holder_no, line, currency, late, unpriced
