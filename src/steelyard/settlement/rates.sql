-- Dated exchange rates up to an instant.
SELECT DISTINCT base_currency, quote_currency, rate_nano, occurred_at FROM fact.exchange_rate WHERE occurred_at < make_timestamp($to_us)
