-- The last posting run: its number, definitions, settings and the instant as of which its facts speak.
SELECT run_id, definitions, settings_hash, epoch_us(as_of) FROM ledger.posting_run ORDER BY run_id DESC LIMIT 1
