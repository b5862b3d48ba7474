-- The stretch that the sources' statuses speak of, by cluster and by whether they tell of pods, as of this posting run. Rounds that come in after
-- it are facts that the ledgers do not know yet: an answer that took its instant from them would find every holding ended before it.
SELECT
  cluster,
  kind IN ('pods', 'trace') AS watched,
  min(coalesce(observed_from_at, occurred_at)) AS first_at,
  max(coalesce(observed_to_at, occurred_at)) AS last_at
FROM fact.source_status
WHERE status <> 'failed'
  AND NOT coalesce(coalesce(observed_to_at, occurred_at) > (SELECT max(horizon_at) FROM dim.parameter), FALSE)
GROUP BY cluster, watched
