-- What of a card's memory (of its whole board) was in use at each instant that was sampled, figures beyond its size left out: a view, since only an instant
-- and the hour before it are ever looked at.
SELECT sample.cluster, sample.device_uuid, sample.occurred_at AS sampled_at, sample.memory_used_mib AS memory_mib
FROM fact.device_sample AS sample
WHERE sample.gi IS NULL AND sample.memory_used_mib BETWEEN 0 AND coalesce(sample.memory_total_mib, 100000000)
  AND sample.occurred_at <= (SELECT max(horizon_at) FROM dim.parameter)
