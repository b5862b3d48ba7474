-- What rows say in words, once: a ledger's line or account with its price, currency and reason. key_hash as that of holders.
WITH seen AS (
  SELECT DISTINCT 'charge' AS ledger, line, price_id, currency, unpriced_reason, provisional, CAST(NULL AS VARCHAR) AS used_path
  FROM ledger.charge_entry
  WHERE grain_at >= make_timestamp($from_us) AND grain_at < make_timestamp($to_us)
  UNION ALL
  SELECT DISTINCT 'cost', account, price_id, currency, unpriced_reason, provisional, used_path
  FROM ledger.cost_entry
  WHERE grain_at >= make_timestamp($from_us) AND grain_at < make_timestamp($to_us)
)
SELECT
  CAST(row_number() OVER (ORDER BY ledger, line, price_id, currency, unpriced_reason, provisional, used_path) AS INTEGER) AS tariff_no,
  hash(line, price_id, currency, unpriced_reason, provisional, used_path) AS key_hash, *
FROM seen
