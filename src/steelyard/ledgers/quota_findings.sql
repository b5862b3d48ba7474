-- What controllers say of their queues and what our own books know, where the two do not agree. Counters of metrics are compared with the objects they
-- count, each series by its latest sample; where no object of the kind was ever seen nothing is compared.
WITH
gang_word AS (
  SELECT
    word.cluster, word.object_uid, word.object_kind, word.namespace, word.object_name AS name, coalesce(demand.queue, word.queue) AS queue, word.demand, word.gpu_milli
  FROM (
    SELECT cluster, object_uid, object_kind, namespace, object_name, queue, demand, gpu_milli
    FROM fact.gang
    WHERE object_kind = 'Workload' AND gpu_milli IS NULL OR amount_milli(gpu_milli) IS NULL AND gpu_milli IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY cluster, object_uid ORDER BY occurred_at DESC, fact_id) = 1
  ) AS word
  LEFT JOIN dim.demand AS demand ON demand.cluster = word.cluster AND demand.demand_id = word.object_uid
),
beyond AS (
  SELECT cluster, object_kind, namespace, name, queue, part.key AS resource, part.value AS milli
  FROM (SELECT *, unnest(map_entries(TRY_CAST(CAST(demand AS JSON) AS MAP(VARCHAR, BIGINT)))) AS part FROM gang_word WHERE demand <> '{}') AS stated
  WHERE counts_accelerators(part.key) AND amount_milli(part.value) IS NULL
  UNION ALL
  SELECT cluster, object_kind, namespace, name, queue, NULL, NULL FROM gang_word WHERE gpu_milli IS NULL AND demand = '{}'
),
sample AS (
  SELECT cluster, metric, kind, labels, arg_max(value, occurred_at) AS value
  FROM fact.metric_sample
  WHERE family = 'queue' AND metric IN (
    'kueue_quota_reserved_wait_time_seconds', 'kueue_finished_workloads_total', 'volcano_queue_allocated_scalar_resources',
    'volcano_unschedule_task_count'
  ) AND kind <> 'bucket'
  GROUP BY cluster, metric, kind, labels
),
-- Kueue's own clock starts anew where the condition Requeued was last moved, and a second preemption does not move it.
requeued AS (
  SELECT cluster, object_uid, max(occurred_at) AS requeued_at
  FROM fact.transition
  WHERE object_kind = 'Workload' AND object_group = 'kueue.x-k8s.io' AND aspect = 'condition' AND item = 'Requeued' AND time_basis = 'stated'
  GROUP BY cluster, object_uid
),
last_wait AS (
  SELECT
    cluster, demand_id, max(started_at) AS started_at, arg_max(ended_at, started_at) AS ended_at
  FROM ledger.wait
  WHERE stage = 'queue' AND demand_kind = 'workload' AND ended_by = 'reserved' AND unknown_reason IS NULL
  GROUP BY cluster, demand_id
),
priority AS (
  SELECT cluster, object_uid, arg_max(priority_class, occurred_at) FILTER (WHERE priority_class IS NOT NULL) AS priority_class
  FROM fact.gang
  WHERE object_kind = 'Workload'
  GROUP BY cluster, object_uid
),
wrong_wait AS (
  SELECT
    last_wait.cluster, demand.namespace, demand.name, demand.queue, priority.priority_class,
    epoch_us(last_wait.ended_at) // 1000000 - epoch_us(requeued.requeued_at) // 1000000 AS reported_seconds,
    epoch_us(last_wait.ended_at) // 1000000 - epoch_us(last_wait.started_at) // 1000000 AS true_seconds
  FROM last_wait
  JOIN requeued ON requeued.cluster = last_wait.cluster AND requeued.object_uid = last_wait.demand_id AND requeued.requeued_at < last_wait.ended_at
  JOIN dim.demand AS demand ON demand.cluster = last_wait.cluster AND demand.demand_id = last_wait.demand_id
  LEFT JOIN priority ON priority.cluster = last_wait.cluster AND priority.object_uid = last_wait.demand_id
  WHERE epoch_us(last_wait.ended_at) // 1000000 - epoch_us(requeued.requeued_at) // 1000000
    > epoch_us(last_wait.ended_at) // 1000000 - epoch_us(last_wait.started_at) // 1000000 + 1
),
reported AS (
  SELECT
    cluster, json_extract_string(labels, '$.cluster_queue') AS queue, json_extract_string(labels, '$.priority_class') AS priority_class,
    max(value) FILTER (WHERE kind = 'count') AS waits_count, max(value) FILTER (WHERE kind = 'sum') AS sum_seconds
  FROM sample
  WHERE metric = 'kueue_quota_reserved_wait_time_seconds'
  GROUP BY ALL
),
counted AS (
  SELECT
    wait.cluster, wait.queue, priority.priority_class, count(*) AS waits_count,
    CAST(sum(epoch_us(wait.ended_at) // 1000000 - epoch_us(wait.started_at) // 1000000) AS BIGINT) AS sum_seconds
  FROM ledger.wait AS wait
  LEFT JOIN priority ON priority.cluster = wait.cluster AND priority.object_uid = wait.demand_id
  WHERE wait.stage = 'queue' AND wait.demand_kind = 'workload' AND wait.ended_by = 'reserved' AND wait.unknown_reason IS NULL
  GROUP BY ALL
),
finished AS (
  SELECT
    gang.cluster, gang.cluster_queue AS queue, gang.priority_class, count(*) FILTER (WHERE gang.outcome = 'replaced') AS replaced_count,
    count(*) FILTER (WHERE gang.outcome IN ('succeeded', 'failed')) AS finished_count
  FROM (
    SELECT
      cluster, object_uid, arg_max(outcome, occurred_at) AS outcome, arg_max(priority_class, occurred_at) AS priority_class,
      arg_max(cluster_queue, occurred_at) FILTER (WHERE cluster_queue IS NOT NULL) AS cluster_queue
    FROM fact.gang
    WHERE object_kind = 'Workload' AND object_group = 'kueue.x-k8s.io'
    GROUP BY cluster, object_uid
  ) AS gang
  WHERE gang.outcome IS NOT NULL
  GROUP BY ALL
),
-- Nodes that more than one flavor promises: all labels of the flavor are on them.
flavor AS (
  SELECT cluster, queue AS flavor, json_extract(arg_max(policies, occurred_at), '$.nodeLabels') AS labels
  FROM fact.queue
  WHERE queue_kind = 'flavor'
  GROUP BY cluster, queue
),
flavor_label AS (
  SELECT cluster, flavor, labels, unnest(json_keys(labels)) AS label FROM flavor WHERE json_type(labels) = 'OBJECT'
),
labelled_node AS (
  SELECT cluster, node, arg_max(labels, occurred_at) AS labels
  FROM fact.node
  WHERE cluster IN (SELECT cluster FROM flavor)
  GROUP BY cluster, node
),
flavor_node AS (
  SELECT flavor_label.cluster, flavor_label.flavor, node.node
  FROM flavor_label
  JOIN labelled_node AS node ON node.cluster = flavor_label.cluster
  GROUP BY flavor_label.cluster, flavor_label.flavor, node.node
  HAVING bool_and(
    coalesce(
      json_extract_string(node.labels, '$."' || flavor_label.label || '"')
      = json_extract_string(flavor_label.labels, '$."' || flavor_label.label || '"'), FALSE
    )
  )
),
promised AS (
  SELECT cluster, resource, CAST(sum(nominal_milli) AS BIGINT) AS nominal_milli
  FROM dim.quota_now
  WHERE queue_kind IN ('cluster_queue', 'cohort') AND resource = 'nvidia.com/gpu'
  GROUP BY cluster, resource
),
-- How many cards there are: told only where all nodes were listed.
hardware AS (
  SELECT cluster, max(cards_count) AS cards_count
  FROM (
    SELECT cluster, count(DISTINCT device_uuid) AS cards_count FROM dim.device WHERE valid_to_at IS NULL GROUP BY cluster
    UNION ALL
    SELECT cluster, CAST(sum(cards_count) AS BIGINT)
    FROM (SELECT cluster, node, arg_max(cards_count, from_us) AS cards_count FROM dim.node_capacity GROUP BY cluster, node) AS node
    GROUP BY cluster
  ) AS counted_cards
  WHERE cluster IN (SELECT cluster FROM fact.source_status WHERE kind = 'nodes' AND complete AND status = 'ok')
  GROUP BY cluster
),
leaked AS (
  SELECT
    leak.cluster, leak.namespace, leak.name, leak.queue, leak.from_us, leak.to_us, leak.demand_id,
    CAST(sum(CAST(json_extract(leak.admitted, '$."' || leak.resource || '"') AS BIGINT)) AS BIGINT) AS milli
  FROM (SELECT *, unnest(json_keys(admitted)) AS resource FROM dim.quota_leak WHERE is_open) AS leak
  WHERE counts_accelerators(leak.resource)
  GROUP BY ALL
),
found AS (
  SELECT
    leaked.cluster, 'leaked_reservation' AS code, 'warning' AS severity, 'workload ' || leaked.namespace || '/' || leaked.name AS subject,
    'it keeps its quota and has had no live pod since then: nobody can use what it holds' AS message,
    json_object(
      'queue', leaked.queue, 'gpu', leaked.milli / 1000, 'since_utc', strftime(make_timestamp(leaked.from_us), '%Y-%m-%dT%H:%M:%SZ'),
      'leaked_seconds', (leaked.to_us - leaked.from_us) // 1000000,
      'leaked_gpu_seconds', CAST(leaked.milli AS HUGEINT) * ((leaked.to_us - leaked.from_us) // 1000000) / 1000,
      'requeue_at_utc', (
        SELECT strftime(max(gang.requeue_at), '%Y-%m-%dT%H:%M:%SZ')
        FROM fact.gang AS gang
        WHERE gang.cluster = leaked.cluster AND gang.object_uid = leaked.demand_id
      )
    ) AS evidence
  FROM leaked
  UNION ALL
  SELECT
    wrong_wait.cluster, 'kueue_wait_metric_wrong', 'warning', 'workload ' || wrong_wait.namespace || '/' || wrong_wait.name,
    'Kueue counts its last wait from its first requeue, over a run in between: its wait metrics are too long by that',
    json_object(
      'queue', wrong_wait.queue, 'priority_class', wrong_wait.priority_class, 'reported_seconds', wrong_wait.reported_seconds,
      'true_seconds', wrong_wait.true_seconds, 'metric', 'kueue_quota_reserved_wait_time_seconds',
      'count', CAST(reported.waits_count AS BIGINT), 'sum_seconds', CAST(reported.sum_seconds AS BIGINT),
      'true_count', counted.waits_count, 'true_sum_seconds', counted.sum_seconds,
      'difference_seconds', CAST(reported.sum_seconds AS BIGINT) - counted.sum_seconds
    )
  FROM wrong_wait
  LEFT JOIN reported
    ON reported.cluster = wrong_wait.cluster AND reported.queue = wrong_wait.queue AND reported.priority_class IS NOT DISTINCT FROM wrong_wait.priority_class
  LEFT JOIN counted
    ON counted.cluster = wrong_wait.cluster AND counted.queue = wrong_wait.queue AND counted.priority_class IS NOT DISTINCT FROM wrong_wait.priority_class
  UNION ALL
  SELECT
    finished.cluster, 'finished_metric_counts_slice_replacement', 'info',
    'cluster queue ' || finished.queue || '/' || coalesce(finished.priority_class, ''),
    'kueue_finished_workloads_total counts workloads that a larger slice replaced, which are no ends of work',
    json_object(
      'cluster_queue', finished.queue, 'priority_class', finished.priority_class, 'metric_count', CAST(sample.value AS BIGINT),
      'true_finished_count', finished.finished_count, 'replaced_count', finished.replaced_count
    )
  FROM finished
  JOIN sample
    ON sample.cluster = finished.cluster AND sample.metric = 'kueue_finished_workloads_total'
    AND json_extract_string(sample.labels, '$.cluster_queue') = finished.queue
    AND json_extract_string(sample.labels, '$.priority_class') IS NOT DISTINCT FROM finished.priority_class
  WHERE finished.replaced_count > 0 AND sample.value >= finished.finished_count + finished.replaced_count
  UNION ALL
  SELECT
    sample.cluster, 'stale_metric_series', 'info', 'job ' || json_extract_string(sample.labels, '$.job_id'),
    'the series stands on although there is no such pod group: it is dropped',
    json_object('metric', sample.metric, 'job_id', json_extract_string(sample.labels, '$.job_id'), 'value_count', CAST(sample.value AS BIGINT))
  FROM sample
  WHERE sample.metric = 'volcano_unschedule_task_count' AND abs(sample.value) < 1000000000
    AND sample.cluster IN (SELECT cluster FROM dim.gang WHERE object_kind = 'PodGroup')
    AND NOT EXISTS (
      SELECT 1
      FROM dim.gang AS gang
      WHERE gang.cluster = sample.cluster AND gang.object_kind IN ('PodGroup', 'Job')
        AND json_extract_string(sample.labels, '$.job_id')
          IN (gang.name, gang.name || '-' || gang.object_uid, gang.namespace || '/' || gang.name)
    )
  UNION ALL
  SELECT
    now.cluster, 'stale_metric_series', 'warning', 'queue ' || now.queue || '/' || now.resource,
    'the metric says that more of the queue is allocated than its pods hold and its status says: it is not believed',
    json_object(
      'metric', sample.metric, 'queue', now.queue, 'resource', now.resource, 'metric_raw_milli_gpu', CAST(sample.value * 1000 AS BIGINT),
      'metric_gpu', sample.value, 'status_gpu', now.claimed_milli / 1000, 'true_gpu', now.used_milli / 1000
    )
  FROM dim.quota_now AS now
  JOIN sample
    ON sample.cluster = now.cluster AND sample.metric = 'volcano_queue_allocated_scalar_resources'
    AND json_extract_string(sample.labels, '$.queue_name') = now.queue AND json_extract_string(sample.labels, '$.resource') = now.resource
  WHERE now.queue_kind = 'volcano_queue' AND abs(sample.value) <= 1000000 AND now.used_milli IS NOT NULL
    AND sample.value * 1000 > greatest(now.used_milli, now.claimed_milli)
  UNION ALL
  SELECT
    cluster, 'quota_use_differs', 'info',
    'queue ' || queue || '/' || coalesce(flavor, '') || '/' || resource,
    'what the controller says is used is not what pods hold: what pods hold counts',
    json_object('claimed_gpu', claimed_milli / 1000, 'held_gpu', used_milli / 1000, 'leaked_gpu', leaked_milli / 1000)
  FROM dim.quota_now
  WHERE used_basis = 'holding' AND queue_kind <> 'pool' AND claimed_milli <> used_milli
  UNION ALL
  SELECT
    cluster, 'quota_over_nominal', 'warning', queue_kind || ' ' || coalesce(namespace || '/', '') || queue || '/' || coalesce(flavor || '/', '') || resource,
    'more than its quota was used where nothing can be borrowed',
    json_object('over_nominal_milli_us', CAST(sum(over_nominal_milli_us) AS BIGINT), 'from', CAST(min(grain_at) AS VARCHAR), 'to', CAST(max(grain_at) AS VARCHAR))
  FROM ledger.quota
  WHERE over_nominal_milli_us > 0 AND queue_kind <> 'pool'
  GROUP BY cluster, queue_kind, queue, namespace, flavor, resource
  UNION ALL
  SELECT
    one.cluster, 'overlapping_flavors', 'warning', 'flavors ' || one.flavor || ', ' || other.flavor,
    'both promise the same nodes: the sum of their quotas is more than there is',
    json_object('nodes_count', count(*), 'nodes', string_agg(one.node, ',' ORDER BY one.node)[:1000])
  FROM flavor_node AS one
  JOIN flavor_node AS other ON other.cluster = one.cluster AND other.node = one.node AND other.flavor > one.flavor
  GROUP BY one.cluster, one.flavor, other.flavor
  UNION ALL
  SELECT
    promised.cluster, 'quota_above_hardware', 'warning', 'resource ' || promised.resource,
    'the quotas of all queues together are more cards than there are',
    json_object('nominal_gpu', promised.nominal_milli / 1000, 'cards_count', hardware.cards_count)
  FROM promised
  JOIN hardware ON hardware.cluster = promised.cluster
  WHERE promised.nominal_milli > 1000 * hardware.cards_count
  UNION ALL
  SELECT
    cluster, 'amount_beyond_counting', 'warning', lower(object_kind) || ' ' || namespace || '/' || name,
    'what it asks for is no amount of cards that there can be: it is in no sum, and sums of its queue are not known while it waits',
    json_object('queue', queue, 'resource', resource, 'amount_milli', milli)
  FROM beyond
  QUALIFY row_number() OVER (PARTITION BY cluster, object_kind, namespace, name ORDER BY resource) = 1
)
SELECT
  found.cluster,
  'ledger.quota' AS source,
  found.code || '/' || found.subject AS natural_key,
  parameter.as_of_at AS occurred_at,
  parameter.as_of_at AS observed_at,
  found.code,
  found.severity,
  found.subject,
  found.message,
  CAST(found.evidence AS VARCHAR) AS evidence,
  CAST(NULL AS VARCHAR) AS file,
  CAST(NULL AS BIGINT) AS line,
  CAST(NULL AS VARCHAR) AS excerpt
FROM found
CROSS JOIN dim.parameter AS parameter
