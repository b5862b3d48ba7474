-- What the cost ledger says now, within everybody's period, in numbers.
SELECT
  place.place_no, holder.holder_no, entry.grain_at, tariff.tariff_no, entry.amount_gpu_us, entry.used_gpu_us, entry.used_upper_gpu_us, entry.cost_micro
FROM ledger.cost_entry AS entry
JOIN settling_key AS place ON place.key_no = entry.key_no AND place.ledger = 'cost'
JOIN settling_holder AS holder
  ON holder.key_hash = hash(place.cluster_no, entry.pod_uid, entry.unit_id, CASE WHEN entry.pod_uid IS NULL THEN entry.owner END)
JOIN settling_tariff AS tariff
  ON tariff.ledger = 'cost'
  AND tariff.key_hash = hash(entry.account, entry.price_id, entry.currency, entry.unpriced_reason, entry.provisional, entry.used_path)
WHERE entry.sign = 1 AND entry.grain_at >= make_timestamp($from_us) AND entry.grain_at < make_timestamp($to_us)
  AND entry.grain_at >= holder.from_at AND entry.grain_at < holder.to_at
  AND entry.entry_id NOT IN (SELECT entry_id FROM ledger.cost_entry WHERE sign = -1)
