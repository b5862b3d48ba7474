-- By how much the accounts of places miss their supply within the estate's window, in GPU-time: the sum over places of what is left, absolute; and the supply.
WITH supplied AS (
  SELECT key.cluster, key.place_kind, key.place_id, sum(entry.amount_gpu_us) AS amount_gpu_us
  FROM ledger.supply_entry AS entry
  JOIN ledger.supply_key AS key ON key.key_no = entry.key_no
  WHERE entry.sign = 1 AND entry.account = 'supply' AND entry.grain_at >= make_timestamp($from_us) AND entry.grain_at < make_timestamp($to_us)
    AND entry.entry_id NOT IN (SELECT entry_id FROM ledger.supply_entry WHERE sign = -1)
  GROUP BY key.cluster, key.place_kind, key.place_id
),
accounted AS (
  SELECT key.cluster, key.place_kind, key.place_id, sum(entry.amount_gpu_us) AS amount_gpu_us
  FROM ledger.cost_entry AS entry
  JOIN ledger.cost_key AS key ON key.key_no = entry.key_no
  WHERE entry.sign = 1 AND entry.grain_at >= make_timestamp($from_us) AND entry.grain_at < make_timestamp($to_us)
    AND entry.entry_id NOT IN (SELECT entry_id FROM ledger.cost_entry WHERE sign = -1)
  GROUP BY key.cluster, key.place_kind, key.place_id
)
SELECT CAST(coalesce(sum(abs(coalesce(supplied.amount_gpu_us, 0) - coalesce(accounted.amount_gpu_us, 0))), 0) AS BIGINT) AS residual_gpu_us,
  CAST(coalesce(sum(supplied.amount_gpu_us), 0) AS BIGINT) AS supply_gpu_us
FROM supplied
FULL JOIN accounted
  ON accounted.cluster = supplied.cluster AND accounted.place_kind = supplied.place_kind AND accounted.place_id = supplied.place_id
