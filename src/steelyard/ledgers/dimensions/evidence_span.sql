-- From when to when each kind of evidence about scheduling speaks, by cluster: `audit` (the API server's log), `events`, `gangs` (objects of Kueue and
-- Volcano), `queues`, `metrics` (the controllers' own). What has no row was never read.
SELECT cluster, 'audit' AS kind, min(occurred_at) AS first_at, max(occurred_at) AS last_at FROM fact.audit_event GROUP BY cluster
UNION ALL
SELECT cluster, 'events', min(occurred_at), max(occurred_at) FROM fact.event WHERE kind = 'kubernetes' GROUP BY cluster
UNION ALL
SELECT cluster, 'gangs', min(occurred_at), max(occurred_at) FROM fact.gang GROUP BY cluster
UNION ALL
SELECT cluster, 'queues', min(occurred_at), max(occurred_at) FROM fact.queue GROUP BY cluster
UNION ALL
SELECT cluster, 'metrics', min(occurred_at), max(occurred_at) FROM fact.metric_sample WHERE family = 'queue' GROUP BY cluster
