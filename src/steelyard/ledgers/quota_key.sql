-- One row per queue, flavor and resource of which a quota of cards was seen, and which pool it draws on. pool: the topmost cohort, the whole of Volcano's
-- queues (leaves alone, for a parent's figures are the sum of its children), the whole of a trace's tenants; NULL where a queue stands alone. The pool
-- is that of the latest word. shares: whether what is used above nominal is borrowed.
WITH RECURSIVE
key AS (
  SELECT
    cluster, queue_kind, queue, namespace, flavor, resource, arg_max(parent, occurred_at) AS parent,
    min(occurred_at) AS first_at
  FROM fact.quota
  WHERE queue_kind NOT IN ('local_queue', 'flavor') AND counts_accelerators(resource)
  GROUP BY cluster, queue_kind, queue, namespace, flavor, resource
),
cohort AS (
  SELECT cluster, queue, arg_max(parent, occurred_at) AS parent
  FROM fact.queue
  WHERE queue_kind = 'cohort'
  GROUP BY cluster, queue
),
climb AS (
  SELECT DISTINCT cluster, CASE WHEN queue_kind = 'cohort' THEN queue ELSE parent END AS cohort, CASE WHEN queue_kind = 'cohort' THEN queue ELSE parent END AS above, 0 AS steps
  FROM key
  WHERE queue_kind = 'cohort' OR queue_kind = 'cluster_queue' AND parent IS NOT NULL
  UNION ALL
  SELECT climb.cluster, climb.cohort, cohort.parent, climb.steps + 1
  FROM climb
  JOIN cohort ON cohort.cluster = climb.cluster AND cohort.queue = climb.above
  WHERE cohort.parent IS NOT NULL AND climb.steps < 16
),
top AS (
  SELECT cluster, cohort, arg_max(above, steps) AS pool FROM climb GROUP BY cluster, cohort
),
volcano_parent AS (
  SELECT DISTINCT cluster, parent AS queue FROM key WHERE queue_kind = 'volcano_queue' AND parent IS NOT NULL
  UNION
  SELECT DISTINCT cluster, parent FROM fact.queue WHERE queue_kind = 'volcano_queue' AND parent IS NOT NULL
),
placed AS (
  SELECT
    key.*,
    CASE key.queue_kind
      WHEN 'cluster_queue' THEN top.pool
      WHEN 'cohort' THEN top.pool
      WHEN 'volcano_queue' THEN CASE WHEN volcano_parent.queue IS NULL AND key.queue <> 'root' THEN 'root' END
      WHEN 'tenant' THEN coalesce(key.parent, key.cluster)
    END AS pool,
    CASE key.queue_kind WHEN 'cohort' THEN 'cluster_queue' ELSE key.queue_kind END AS pool_of,
    key.queue_kind = 'volcano_queue' OR top.pool IS NOT NULL AS shares
  FROM key
  LEFT JOIN top
    ON top.cluster = key.cluster AND top.cohort = CASE WHEN key.queue_kind = 'cohort' THEN key.queue ELSE key.parent END
    AND key.queue_kind IN ('cohort', 'cluster_queue')
  LEFT JOIN volcano_parent
    ON key.queue_kind = 'volcano_queue' AND volcano_parent.cluster = key.cluster AND volcano_parent.queue = key.queue
)
SELECT
  CAST(row_number() OVER (ORDER BY cluster, queue_kind, queue, namespace, flavor, resource) AS BIGINT) AS key_no,
  CASE WHEN pool IS NOT NULL THEN CAST(dense_rank() OVER (ORDER BY cluster, pool_of, pool, flavor, resource) AS BIGINT) END AS pool_no,
  cluster, queue_kind, queue, namespace, flavor, resource, pool, shares
FROM placed
