-- Rows of the two ledgers, summed to the lines of statements: one for each place, holder, epoch and price. What it cost stands on the first line of the same kind.
WITH charged AS (
  SELECT
    place_no, holder_no, $epoch AS epoch_no, line, price_id, currency, unpriced_reason, provisional, min(grain_at) AS from_at, max(grain_at) AS last_at,
    CAST(sum(quantity_gpu_us) AS BIGINT) AS quantity_gpu_us, CAST(sum(list_micro) AS BIGINT) AS list_micro,
    CAST(sum(discount_micro) AS BIGINT) AS discount_micro, CAST(sum(charge_micro) AS BIGINT) AS charge_micro
  FROM settling_charge
  GROUP BY ALL
),
costed AS (
  SELECT
    place_no, holder_no, $epoch AS epoch_no, CASE account WHEN 'tenant' THEN 'grant' ELSE account END AS line, min(currency) AS currency,
    CAST(sum(amount_gpu_us) AS BIGINT) AS amount_gpu_us,
    CASE WHEN count(cost_micro) = count(*) AND min(currency) IS NOT DISTINCT FROM max(currency) THEN CAST(sum(cost_micro) AS BIGINT) END AS cost_micro,
    CAST(sum(used_gpu_us) AS BIGINT) AS used_gpu_us,
    CAST(sum(used_upper_gpu_us) AS BIGINT) + CAST(coalesce(sum(amount_gpu_us) FILTER (WHERE used_upper_gpu_us IS NULL), 0) AS BIGINT) AS used_upper_gpu_us,
    CAST(sum(amount_gpu_us - (used_upper_gpu_us - used_gpu_us)) AS BIGINT) AS seen_gpu_us
  FROM settling_cost
  WHERE account IN ('tenant', 'reserved_unused')
  GROUP BY ALL
),
ranked AS (
  SELECT *, row_number() OVER (PARTITION BY place_no, holder_no, epoch_no, line ORDER BY price_id, currency, unpriced_reason, provisional) AS place_in_line
  FROM charged
)
SELECT
  ranked.* EXCLUDE (place_in_line), costed.currency AS cost_currency, costed.amount_gpu_us, costed.cost_micro, costed.used_gpu_us,
  costed.used_upper_gpu_us, costed.seen_gpu_us
FROM ranked
LEFT JOIN costed
  ON ranked.place_in_line = 1 AND costed.place_no = ranked.place_no AND costed.holder_no = ranked.holder_no
  AND costed.epoch_no = ranked.epoch_no AND costed.line = ranked.line
