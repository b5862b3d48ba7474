-- What was asked for and not given, from when to when, and why: what free share is matched with. asked_us: since when its demand asks, the place in the line.
-- A request that never fits claims nothing, nor does a wait of which it is not known that it took so long. Capacity that lacks while share is free is
-- fragmentation; where no words tell, the stage does: a queue holds back for quota, a pod group's for its gang.
SELECT
    cluster, demand_id, asked_us, from_us, to_us, gpu_milli * 1000 AS share_ppm,
    CASE
        WHEN cause IN ('quota', 'fragmentation', 'gang', 'placement', 'scheduler') THEN cause
        WHEN cause = 'capacity' THEN 'fragmentation'
        WHEN cause IS NULL AND stage = 'queue' THEN CASE WHEN demand_kind = 'pod_group' THEN 'gang' ELSE 'quota' END
        ELSE 'scheduler'
    END AS cause
FROM (
    SELECT
        cluster, demand_id, demand_kind, stage, cause, fit, gpu_milli, unknown_reason,
        epoch_us(min(started_at) OVER (PARTITION BY cluster, demand_id)) AS asked_us,
        epoch_us(started_at) AS from_us, epoch_us(coalesce(ended_at, known_to_at)) AS to_us
    FROM ledger.wait
) AS wait
WHERE stage IN ('queue', 'backoff', 'admission_check', 'gate', 'scheduler') AND to_us > from_us AND gpu_milli BETWEEN 1 AND 1000000000
    AND fit IS DISTINCT FROM 'never_fits'
    AND (unknown_reason IS NULL OR unknown_reason IN ('workload_not_seen', 'end_not_stamped', 'gate_not_seen'))
