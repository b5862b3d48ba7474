-- Rows of the two ledgers, summed to the lines of statements: one for each place, holder, epoch and price. What it cost stands on the first line of the same kind.
WITH charged_no AS (
  SELECT
    place_no, holder_no, $epoch AS epoch_no, tariff_no, min(grain_at) AS from_at, max(grain_at) AS last_at,
    CAST(sum(quantity_gpu_us) AS BIGINT) AS quantity_gpu_us, CAST(sum(list_micro) AS BIGINT) AS list_micro,
    CAST(sum(discount_micro) AS BIGINT) AS discount_micro, CAST(sum(charge_micro) AS BIGINT) AS charge_micro
  FROM settling_charge
  GROUP BY ALL
),
charged AS (
  SELECT row.*, tariff.line, tariff.price_id, tariff.currency, tariff.unpriced_reason, tariff.provisional
  FROM charged_no AS row
  JOIN settling_tariff AS tariff ON tariff.tariff_no = row.tariff_no
),
costed_no AS (
  SELECT
    place_no, holder_no, $epoch AS epoch_no, tariff_no, count(*) AS rows_count, count(cost_micro) AS priced_count, sum(amount_gpu_us) AS amount_gpu_us,
    sum(cost_micro) AS cost_micro, sum(used_gpu_us) AS used_gpu_us, sum(used_upper_gpu_us) AS used_upper_gpu_us,
    sum(amount_gpu_us) FILTER (WHERE used_upper_gpu_us IS NULL) AS unseen_gpu_us,
    sum(amount_gpu_us - (used_upper_gpu_us - used_gpu_us)) AS seen_gpu_us
  FROM settling_cost
  WHERE tariff_no IN (SELECT tariff_no FROM settling_tariff WHERE ledger = 'cost' AND line IN ('tenant', 'reserved_unused'))
  GROUP BY ALL
),
costed AS (
  SELECT
    row.place_no, row.holder_no, row.epoch_no, CASE tariff.line WHEN 'tenant' THEN 'grant' ELSE tariff.line END AS line,
    min(tariff.currency) AS currency, CAST(sum(row.amount_gpu_us) AS BIGINT) AS amount_gpu_us,
    CASE
      WHEN sum(row.priced_count) = sum(row.rows_count) AND min(tariff.currency) IS NOT DISTINCT FROM max(tariff.currency)
        THEN CAST(sum(row.cost_micro) AS BIGINT)
    END AS cost_micro,
    CAST(sum(row.used_gpu_us) AS BIGINT) AS used_gpu_us,
    CAST(sum(row.used_upper_gpu_us) + coalesce(sum(row.unseen_gpu_us), 0) AS BIGINT) AS used_upper_gpu_us,
    CAST(sum(row.seen_gpu_us) AS BIGINT) AS seen_gpu_us
  FROM costed_no AS row
  JOIN settling_tariff AS tariff ON tariff.tariff_no = row.tariff_no
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
