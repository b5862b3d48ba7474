-- Dated exchange rates up to an instant. Of several that were declared for one instant the last one counts.
SELECT base_currency, quote_currency, max_by(rate_nano, observed_at) AS rate_nano, occurred_at
FROM fact.exchange_rate
WHERE occurred_at < make_timestamp($to_us)
GROUP BY base_currency, quote_currency, occurred_at
