-- From the first to the last grain that either ledger of money has.
SELECT epoch_us(min(from_at)), epoch_us(max(to_at))
FROM (
  SELECT min(grain_at) AS from_at, max(grain_at) AS to_at FROM ledger.charge_entry
  UNION ALL
  SELECT min(grain_at), max(grain_at) FROM ledger.cost_entry
) AS span
