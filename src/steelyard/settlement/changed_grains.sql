-- Grains of a span in which a ledger posted or reversed anything after a run.
SELECT DISTINCT grain_at FROM ledger.charge_entry
WHERE run_id > $run_id AND grain_at >= make_timestamp($from_us) AND grain_at < make_timestamp($to_us)
UNION
SELECT DISTINCT grain_at FROM ledger.cost_entry
WHERE run_id > $run_id AND grain_at >= make_timestamp($from_us) AND grain_at < make_timestamp($to_us)
