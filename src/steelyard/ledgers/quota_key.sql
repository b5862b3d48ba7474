-- One row per queue, flavor and resource of which a quota of cards was seen, and which pool it draws on. pool: the cohort that a cluster queue names (what
-- a cohort draws from above it is not added), the whole of Volcano's queues (leaves alone, for a parent's figures are the sum of its children), the
-- whole of a trace's tenants; NULL where a queue stands alone. The pool is that of the latest word. shares: whether what is used above nominal is borrowed.
-- flavors_count: over how many flavors the queue's quota of the resource is spread.
WITH
key AS (
  SELECT cluster, queue_kind, queue, namespace, flavor, resource, arg_max(parent, occurred_at) AS parent
  FROM fact.quota
  WHERE queue_kind NOT IN ('local_queue', 'flavor') AND counts_accelerators(resource)
  GROUP BY cluster, queue_kind, queue, namespace, flavor, resource
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
      WHEN 'cluster_queue' THEN key.parent
      WHEN 'cohort' THEN key.queue
      WHEN 'volcano_queue' THEN CASE WHEN parent.queue IS NULL AND key.queue <> 'root' THEN 'root' END
      WHEN 'tenant' THEN coalesce(key.parent, key.cluster)
    END AS pool,
    CASE key.queue_kind WHEN 'cohort' THEN 'cluster_queue' ELSE key.queue_kind END AS pool_of
  FROM key
  LEFT JOIN volcano_parent AS parent ON key.queue_kind = 'volcano_queue' AND parent.cluster = key.cluster AND parent.queue = key.queue
)
SELECT
  CAST(row_number() OVER (ORDER BY cluster, queue_kind, queue, namespace, flavor, resource) AS BIGINT) AS key_no,
  CASE WHEN pool IS NOT NULL THEN CAST(dense_rank() OVER (ORDER BY cluster, pool_of, pool, flavor, resource) AS BIGINT) END AS pool_no,
  cluster, queue_kind, queue, namespace, flavor, resource, pool,
  queue_kind IN ('volcano_queue', 'cohort') OR queue_kind = 'cluster_queue' AND pool IS NOT NULL AS shares,
  queue_kind = 'volcano_queue' AND pool IS NULL AS is_rollup,
  count(*) OVER (PARTITION BY cluster, queue_kind, queue, namespace, resource) AS flavors_count
FROM placed
