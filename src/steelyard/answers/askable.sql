-- Which questions have an answer (askable.py), and whose wait is the longest.

-- name: askable_known
SELECT
  EXISTS (SELECT 1 FROM ledger.holding) OR EXISTS (SELECT 1 FROM dim.device) AS has_holdings,
  EXISTS (SELECT 1 FROM ledger.wait) OR EXISTS (SELECT 1 FROM dim.quota_now) OR EXISTS (SELECT 1 FROM fact.decision) OR EXISTS (SELECT 1 FROM fact.refusal)
    AS has_queues;

-- name: askable_wait
SELECT coalesce(d.namespace || '/', '') || d.name AS name
FROM ledger.wait AS w
JOIN dim.demand AS d ON d.cluster = w.cluster AND d.demand_id = w.demand_id
WHERE w.ended_at IS NULL AND w.stage IN ('queue', 'gate', 'scheduler', 'admission_check', 'backoff')
ORDER BY w.started_at, d.namespace, d.name
LIMIT 1;
