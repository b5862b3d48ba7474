-- What was asked for and not given, from when to when, and why: what free share is matched with. asked_us: since when its demand asks, the place in the line.
-- A request that never fits claims nothing, nor does a wait of which it is not known that it took so long (definitions.gpu_state says which).
SELECT
    cluster, demand_id, asked_us, from_us, to_us, gpu_milli * 1000 AS share_ppm, waiting_cause(cause, stage, demand_kind) AS cause
FROM (
    SELECT
        cluster, demand_id, demand_kind, stage, cause, fit, gpu_milli, unknown_reason,
        epoch_us(min(started_at) OVER (PARTITION BY cluster, demand_id)) AS asked_us,
        epoch_us(started_at) AS from_us, epoch_us(coalesce(ended_at, known_to_at)) AS to_us
    FROM ledger.wait
) AS wait
WHERE to_us > from_us AND claims_free_share(stage, fit, gpu_milli, unknown_reason)
