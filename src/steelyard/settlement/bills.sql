-- What a provider billed within the estate's period, summed by resource; a line that was seen twice stands once. Taxes, credits and adjustments stand apart.
-- A list amount of which one line tells nothing is not known.
SELECT
  coalesce(provider, '') AS provider, coalesce(invoice_id, '') AS invoice_id, resource_id, coalesce(charge_category, 'Usage') AS charge_category, currency,
  count(*) AS lines_count, CASE WHEN count(list_micro) = count(*) THEN CAST(sum(list_micro) AS BIGINT) END AS list_micro, CAST(sum(billed_micro) AS BIGINT) AS billed_micro,
  CAST(sum(effective_micro) AS BIGINT) AS effective_micro, count(*) FILTER (WHERE billed_micro IS NULL) AS untold_count
FROM (
  SELECT DISTINCT ON (source, natural_key) *
  FROM fact.bill_line
  WHERE occurred_at >= make_timestamp($period_from_us) AND occurred_at < make_timestamp($period_to_us)
  ORDER BY source, natural_key, observed_at DESC, fact_id
) AS line
GROUP BY ALL
