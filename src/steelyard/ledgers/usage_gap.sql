-- The widest gap between rounds that a source of samples declares for a node, or for all.
SELECT cluster, source, scope, max(gap_max_us) AS gap_max_us
FROM fact.source_status
WHERE kind NOT IN ('pods', 'nodes', 'trace') AND status <> 'failed' AND gap_max_us > 0
GROUP BY cluster, source, scope
