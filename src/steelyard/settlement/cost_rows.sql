-- What the cost ledger says now, within everybody's period.
SELECT
  place.place_no, holder.holder_no, entry.grain_at, entry.account, entry.amount_gpu_us, entry.used_gpu_us, entry.used_upper_gpu_us, entry.cost_micro,
  entry.currency, entry.used_path, entry.price_id, entry.provisional, entry.unpriced_reason
FROM ledger.cost_entry AS entry
JOIN settling_key AS place ON place.key_no = entry.key_no AND place.ledger = 'cost'
JOIN settling_holder AS holder
  ON holder.cluster = place.cluster AND holder.pod_uid IS NOT DISTINCT FROM entry.pod_uid
  AND holder.unit_id IS NOT DISTINCT FROM entry.unit_id
  AND holder.owner IS NOT DISTINCT FROM CASE WHEN entry.pod_uid IS NULL THEN entry.owner END
WHERE entry.sign = 1 AND entry.grain_at >= make_timestamp($from_us) AND entry.grain_at < make_timestamp($to_us)
  AND entry.grain_at >= holder.from_at AND entry.grain_at < holder.to_at
  AND entry.entry_id NOT IN (SELECT entry_id FROM ledger.cost_entry WHERE sign = -1)
