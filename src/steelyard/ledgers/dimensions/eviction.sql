-- How often each demand was evicted, and why: as its controller counts it, where it does (the most that any sighting said), else the evictions that its
-- conditions tell. basis: `counted`, `seen`. last_at: the last eviction that was seen; NULL = a count has no date.
WITH counts AS (
  SELECT cluster, object_uid AS demand_id, unnest(from_json(evictions, '[{"reason":"VARCHAR","cause":"VARCHAR","count":"BIGINT"}]')) AS said
  FROM fact.gang
  WHERE object_kind = 'Workload' AND object_group = 'kueue.x-k8s.io' AND evictions <> '[]'
),
counted AS (
  SELECT cluster, demand_id, said.reason AS reason, said.cause AS cause, max(said.count) AS evictions_count
  FROM counts
  WHERE said.count > 0
  GROUP BY ALL
),
seen AS (
  SELECT t.cluster, d.demand_id, coalesce(t.reason, '') AS reason, count(DISTINCT date_trunc('second', t.occurred_at)) AS evictions_count
  FROM fact.transition AS t
  JOIN dim.demand AS d ON d.cluster = t.cluster AND d.demand_id = t.object_uid AND d.demand_kind = 'workload'
  ANTI JOIN counted ON counted.cluster = t.cluster AND counted.demand_id = t.object_uid
  WHERE t.object_kind = 'Workload' AND t.aspect = 'condition' AND t.item = 'Evicted' AND t.value = 'True'
  GROUP BY ALL
),
dated AS (
  SELECT cluster, demand_id, max("at") AS last_at FROM dim.step WHERE step_no = 1 GROUP BY cluster, demand_id
)
SELECT e.cluster, e.demand_id, e.reason, e.cause, e.evictions_count, e.basis, dated.last_at
FROM (
  SELECT *, 'counted' AS basis FROM counted
  UNION ALL
  SELECT cluster, demand_id, reason, NULL, evictions_count, 'seen' FROM seen
) AS e
LEFT JOIN dated ON dated.cluster = e.cluster AND dated.demand_id = e.demand_id
