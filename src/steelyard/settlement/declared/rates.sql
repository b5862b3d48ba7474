-- Every rate that was declared, by pair and the instant from which it holds; of several for one instant the one that was declared last is last.
SELECT
  natural_key AS pair, epoch_us(occurred_at) AS since, rate_nano, base_currency, quote_currency, declared_by, epoch_us(observed_at) AS declared_at
FROM fact.exchange_rate
ORDER BY natural_key, occurred_at, observed_at, rate_nano
