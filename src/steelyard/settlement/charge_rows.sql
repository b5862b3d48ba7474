-- What the charge ledger says now, within everybody's period, in numbers.
SELECT
  place.place_no, holder.holder_no, entry.grain_at, tariff.tariff_no, entry.quantity_gpu_us, entry.list_micro, entry.discount_micro, entry.charge_micro
FROM ledger.charge_entry AS entry
JOIN settling_key AS place ON place.key_no = entry.key_no AND place.ledger = 'charge'
JOIN settling_holder AS holder
  ON holder.key_hash = hash(place.cluster_no, entry.pod_uid, entry.unit_id, CASE WHEN entry.pod_uid IS NULL THEN entry.tenant END)
JOIN settling_tariff AS tariff
  ON tariff.ledger = 'charge'
  AND tariff.key_hash = hash(entry.line, entry.price_id, entry.currency, entry.unpriced_reason, entry.provisional, CAST(NULL AS VARCHAR))
WHERE entry.sign = 1 AND entry.grain_at >= make_timestamp($from_us) AND entry.grain_at < make_timestamp($to_us)
  AND entry.grain_at >= holder.from_at AND entry.grain_at < holder.to_at
  AND entry.entry_id NOT IN (SELECT entry_id FROM ledger.charge_entry WHERE sign = -1)
