-- What each grain of a tenant's charges came to, by currency, within a span.
SELECT epoch_us(grain_at), currency, CAST(sum(charge_micro) AS BIGINT), CAST(sum(quantity_gpu_us) AS BIGINT)
FROM ledger.charge
WHERE tenant = $tenant AND grain_at >= make_timestamp($from_us::BIGINT) AND grain_at < make_timestamp($to_us::BIGINT) AND charge_micro IS NOT NULL
GROUP BY grain_at, currency
ORDER BY grain_at, currency
