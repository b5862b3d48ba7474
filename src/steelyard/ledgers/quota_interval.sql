-- What our own books know of each key, interval by interval: `held` by the pods of its demands, `leaked`, `waiting`, and `known`, the time in which
-- its use is ours to tell: pods were seen, and the objects that tie them to the queue. `known_waiting`: that of its demand, where one flavor alone can be
-- meant. An amount beyond counting is NULL, and then so is what it is a part of. A parent of Volcano queues is left to its own word.
WITH
key AS (
  SELECT * FROM dim.quota_key WHERE queue_kind IN ('cluster_queue', 'volcano_queue') AND NOT is_rollup
),
tied AS (
  SELECT DISTINCT cluster, CASE WHEN object_kind = 'Workload' THEN 'cluster_queue' ELSE 'volcano_queue' END AS queue_kind FROM dim.gang
),
span AS (
  SELECT cluster, epoch_us(min(first_at)) AS from_us, epoch_us(max(last_at)) AS to_us FROM dim.known_span WHERE watched GROUP BY cluster
),
demand AS (
  SELECT
    cluster, demand_id, queue, CASE demand_kind WHEN 'workload' THEN 'cluster_queue' ELSE 'volcano_queue' END AS queue_kind
  FROM dim.demand
  WHERE demand_kind <> 'pod' AND queue IS NOT NULL
),
word AS (
  SELECT cluster, object_uid, arg_max(flavors, occurred_at) FILTER (WHERE flavors <> '{}') AS flavors, arg_max(demand, occurred_at) AS demand,
    bool_and(gpu_milli IS NULL AND object_kind = 'Workload') AS is_uncounted
  FROM fact.gang
  SEMI JOIN key ON key.cluster = gang.cluster
  GROUP BY cluster, object_uid
),
-- Which key a demand's resource belongs to: by the flavor that it was given, else by the queue's only one.
placed AS (
  SELECT demand.cluster, demand.demand_id, key.key_no, key.resource, CAST(json_extract(word.demand, '$."' || key.resource || '"') AS BIGINT) AS asked_milli,
    key.flavors_count, coalesce(word.is_uncounted, FALSE) AS is_uncounted
  FROM demand
  JOIN key ON key.cluster = demand.cluster AND key.queue_kind = demand.queue_kind AND key.queue = demand.queue
  LEFT JOIN word ON word.cluster = demand.cluster AND word.object_uid = demand.demand_id
  WHERE key.flavors_count = 1 OR key.flavor = json_extract_string(word.flavors, '$."' || key.resource || '"')
),
-- Pods that no workload is known for, and that carry the queue's name themselves.
labelled AS (
  SELECT pod.cluster, pod.pod_uid, json_extract_string(pod.labels, '$."kueue.x-k8s.io/cluster-queue-name"') AS queue
  FROM dim.pod AS pod
  JOIN dim.demand_pod AS member ON member.cluster = pod.cluster AND member.pod_uid = pod.pod_uid AND member.demand_kind = 'pod'
  SEMI JOIN key ON key.cluster = pod.cluster
  WHERE contains(pod.labels, 'kueue.x-k8s.io/cluster-queue-name')
),
member AS (
  SELECT placed.key_no, placed.resource, placed.flavors_count, TRUE AS is_placed, member.cluster, member.pod_uid
  FROM placed
  JOIN dim.demand_pod AS member ON member.cluster = placed.cluster AND member.demand_id = placed.demand_id
  UNION ALL
  SELECT key.key_no, key.resource, key.flavors_count, key.flavors_count = 1, labelled.cluster, labelled.pod_uid
  FROM labelled
  JOIN key ON key.cluster = labelled.cluster AND key.queue_kind = 'cluster_queue' AND key.queue = labelled.queue
),
asked AS (
  SELECT request.cluster, request.pod_uid, unnest(string_split(arg_max(request.resource_names, request.occurred_at), ',')) AS resource
  FROM fact.request AS request
  SEMI JOIN member ON member.cluster = request.cluster AND member.pod_uid = request.pod_uid
  GROUP BY request.cluster, request.pod_uid
),
-- Of a pod that asks for two resources of cards it is not told how many of which.
single AS (
  SELECT cluster, pod_uid, min(resource) AS resource
  FROM asked
  WHERE counts_accelerators(resource)
  GROUP BY cluster, pod_uid
  HAVING count(*) = 1
),
pod AS (
  SELECT member.key_no, member.cluster, member.pod_uid, member.is_placed, life.gpu_count * 1000 AS milli
  FROM member
  JOIN single ON single.cluster = member.cluster AND single.pod_uid = member.pod_uid AND single.resource = member.resource
  JOIN dim.pod_life AS life ON life.cluster = member.cluster AND life.pod_uid = member.pod_uid
  WHERE life.gpu_count > 0
),
-- Keys of which pods are missing: one could be of several flavors, or a pod group runs more tasks than pods of it were seen.
partly AS (
  SELECT DISTINCT key_no FROM pod WHERE NOT is_placed
  UNION
  SELECT placed.key_no
  FROM placed
  JOIN (
    SELECT cluster, object_uid, arg_max(coalesce(running_count, 0), occurred_at) AS running_count
    FROM fact.gang
    GROUP BY cluster, object_uid
  ) AS gang ON gang.cluster = placed.cluster AND gang.object_uid = placed.demand_id AND gang.running_count > 0
  LEFT JOIN dim.demand_pod AS member ON member.cluster = placed.cluster AND member.demand_id = placed.demand_id
  LEFT JOIN dim.pod_life AS life ON life.cluster = member.cluster AND life.pod_uid = member.pod_uid AND NOT life.terminal
  WHERE placed.asked_milli > 0
  GROUP BY placed.key_no, placed.demand_id, gang.running_count
  HAVING count(life.pod_uid) < gang.running_count
),
held AS (
  SELECT
    pod.key_no, pod.milli, epoch_us(min(holding.started_at)) AS from_us,
    CASE
      WHEN count(holding.ended_at) = count(*) THEN epoch_us(max(holding.ended_at)) ELSE epoch_us(max(holding.known_to_at))
    END AS to_us,
    count(holding.ended_at) < count(*) AS is_open
  FROM pod
  JOIN ledger.holding AS holding ON holding.cluster = pod.cluster AND holding.pod_uid = pod.pod_uid AND holding.occupancy = 'held'
  WHERE pod.is_placed
  GROUP BY pod.key_no, pod.pod_uid, pod.milli
)
SELECT key_no, 'held' AS what, milli, from_us, to_us, is_open FROM held
UNION ALL
SELECT
  key.key_no, 'leaked', amount_milli(CAST(json_extract(leak.admitted, '$."' || key.resource || '"') AS BIGINT)), leak.from_us, leak.to_us, leak.is_open
FROM dim.quota_leak AS leak
JOIN key
  ON key.cluster = leak.cluster AND key.queue_kind = 'cluster_queue' AND key.queue = leak.queue
  AND (key.flavors_count = 1 OR key.flavor = json_extract_string(leak.flavors, '$."' || key.resource || '"'))
WHERE json_extract(leak.admitted, '$."' || key.resource || '"') IS NOT NULL
UNION ALL
SELECT
  placed.key_no, 'waiting', amount_milli(placed.asked_milli), epoch_us(wait.started_at), epoch_us(coalesce(wait.ended_at, wait.known_to_at)),
  wait.ended_at IS NULL
FROM ledger.wait AS wait
JOIN placed ON placed.cluster = wait.cluster AND placed.demand_id = wait.demand_id
WHERE wait.stage = 'queue' AND placed.flavors_count = 1 AND (placed.asked_milli IS NOT NULL OR placed.is_uncounted)
UNION ALL
SELECT key.key_no, CASE part.waits WHEN 0 THEN 'known' ELSE 'known_waiting' END, 0, span.from_us, span.to_us, TRUE
FROM key
JOIN tied ON tied.cluster = key.cluster AND tied.queue_kind = key.queue_kind
JOIN span ON span.cluster = key.cluster
CROSS JOIN (SELECT 0 AS waits UNION ALL SELECT 1) AS part
LEFT JOIN partly ON partly.key_no = key.key_no
WHERE CASE part.waits WHEN 0 THEN partly.key_no IS NULL ELSE key.flavors_count = 1 END
