-- Q6: do scheduling and quota follow the rules. Conditions and groups are bound: a list per dimension (empty = all, '' = not set) and the words to group by.

-- name: grain
SELECT grain_us, epoch_us(as_of_at) AS as_of_us, wait_ceiling_us FROM dim.parameter;

-- name: demands_of_pod
SELECT DISTINCT member.demand_id
FROM dim.demand_pod AS member
JOIN dim.pod AS pod ON pod.cluster = member.cluster AND pod.pod_uid = member.pod_uid
WHERE $pod IN (pod.pod, pod.namespace || '/' || pod.pod, pod.pod_uid)
ORDER BY member.demand_id;

-- name: known_values
SELECT DISTINCT value
FROM (
  SELECT
    CASE $dimension
      WHEN 'cluster' THEN cluster
      WHEN 'queue' THEN queue
      WHEN 'namespace' THEN namespace
      WHEN 'tenant' THEN tenant
      WHEN 'priority' THEN CAST(priority AS VARCHAR)
      WHEN 'workload' THEN workload_kind || '/' || workload_name
      WHEN 'person' THEN person
    END AS value
  FROM dim.demand
  UNION ALL
  SELECT CASE $dimension WHEN 'cluster' THEN cluster WHEN 'queue' THEN queue WHEN 'namespace' THEN namespace END FROM dim.quota_now
  UNION ALL
  SELECT queue FROM dim.quota_now WHERE queue_kind = 'tenant' AND $dimension = 'tenant'
  UNION ALL
  SELECT
    CASE $dimension WHEN 'cluster' THEN cluster WHEN 'namespace' THEN namespace WHEN 'tenant' THEN tenant WHEN 'person' THEN coalesce(person, "user") END
  FROM dim.refusal
) AS named
WHERE value IS NOT NULL
ORDER BY value;

-- name: wait_groups
-- As wait_curves, for each group.
WITH capacity AS (
  SELECT cluster, queue, TRY_CAST(sum(max_capacity_milli) AS BIGINT) AS capacity_milli
  FROM dim.quota_now
  WHERE queue_kind IN ('cluster_queue', 'volcano_queue') AND regexp_extract(resource, '[^/.]+$') IN ('gpu', 'pgpu', 'npu')
  GROUP BY cluster, queue
  HAVING count(*) = count(max_capacity_milli) AND count(DISTINCT resource) = 1
),
cohort AS (
  SELECT
    CASE WHEN list_contains($by, 'cluster') THEN w.cluster END AS cluster,
    CASE WHEN list_contains($by, 'queue') THEN w.queue END AS queue,
    CASE WHEN list_contains($by, 'namespace') THEN w.namespace END AS namespace,
    CASE WHEN list_contains($by, 'tenant') THEN d.tenant END AS tenant,
    CASE WHEN list_contains($by, 'priority') THEN d.priority END AS priority,
    CASE WHEN list_contains($by, 'workload') THEN d.workload_kind || '/' || d.workload_name END AS workload,
    CASE WHEN list_contains($by, 'person') THEN d.person END AS person,
    epoch_us(w.known_to_at) - epoch_us(w.started_at) AS wait_us, w.ended_by, w.unknown_reason,
    coalesce(w.fit = 'never_fits' OR w.gpu_milli > c.capacity_milli, FALSE) AS never_fits,
    coalesce(w.ended_by IN ('reserved', 'scheduled', 'running'), FALSE) AS is_event
  FROM ledger.wait AS w
  LEFT JOIN dim.demand AS d ON $of_demands AND d.cluster = w.cluster AND d.demand_id = w.demand_id
  LEFT JOIN capacity AS c ON c.cluster = w.cluster AND c.queue = w.queue
  WHERE (w.stage = CASE WHEN w.demand_kind = 'pod' THEN 'scheduler' ELSE 'queue' END OR w.stage IN ('queue', 'gate') AND w.unknown_reason IS NOT NULL)
    AND w.started_at >= make_timestamp($from_us::BIGINT) AND w.started_at < make_timestamp($to_us::BIGINT)
    AND is_among(w.cluster, $cluster_wanted) AND is_among(w.queue, $queue_wanted) AND is_among(w.namespace, $namespace_wanted)
    AND is_among(d.tenant, $tenant_wanted) AND is_among(d.priority, $priority_wanted) AND is_among(d.person, $person_wanted)
    AND is_among(d.workload_kind || '/' || d.workload_name, $workload_wanted) AND is_among(w.demand_id, $demand_id_wanted)
),
known AS (
  SELECT
    cluster, queue, namespace, tenant, priority, workload, person, wait_us, count(*) AS waits, count(*) FILTER (WHERE is_event) AS events
  FROM cohort
  WHERE unknown_reason IS NULL
  GROUP BY ALL
),
risks AS (
  SELECT
    *, sum(waits) OVER (PARTITION BY cluster, queue, namespace, tenant, priority, workload, person ORDER BY wait_us DESC) AS at_risk
  FROM known
),
survivals AS (
  SELECT
    *,
    exp(sum(CASE WHEN events = 0 THEN 0 WHEN events = at_risk THEN -1e300 ELSE ln((at_risk - events) / at_risk) END)
      OVER (PARTITION BY cluster, queue, namespace, tenant, priority, workload, person ORDER BY wait_us)) AS survival
  FROM risks
),
quantiles AS (
  SELECT
    cluster, queue, namespace, tenant, priority, workload, person, min(survival) AS survival,
    min(wait_us) FILTER (WHERE events > 0 AND survival <= 0.5 * (1 + 1e-9)) AS p50_us,
    min(wait_us) FILTER (WHERE events > 0 AND survival <= 0.05 * (1 + 1e-9)) AS p95_us,
    min(wait_us) FILTER (WHERE events > 0 AND survival <= 0.01 * (1 + 1e-9)) AS p99_us
  FROM survivals
  GROUP BY ALL
),
counts AS (
  SELECT
    cluster, queue, namespace, tenant, priority, workload, person,
    count(*) FILTER (WHERE unknown_reason IS NULL) AS waits_count,
    count(*) FILTER (WHERE is_event AND unknown_reason IS NULL) AS events_count,
    percentile_linear(CASE WHEN is_event AND unknown_reason IS NULL THEN wait_us END, 0.5) AS naive_p50_us,
    percentile_linear(CASE WHEN is_event AND unknown_reason IS NULL THEN wait_us END, 0.95) AS naive_p95_us,
    percentile_linear(CASE WHEN is_event AND unknown_reason IS NULL THEN wait_us END, 0.99) AS naive_p99_us,
    count(*) FILTER (WHERE ended_by IS NULL AND unknown_reason IS NULL) AS waiting_count,
    count(*) FILTER (WHERE never_fits AND ended_by IS NULL AND unknown_reason IS NULL) AS never_fits_count,
    count(*) FILTER (WHERE ended_by IS NOT NULL AND NOT is_event AND unknown_reason IS NULL) AS abandoned_count,
    count(*) FILTER (WHERE unknown_reason IS NOT NULL) AS not_recoverable_count,
    max(wait_us) FILTER (WHERE ended_by IS NULL AND unknown_reason IS NULL) AS longest_waiting_us
  FROM cohort
  GROUP BY ALL
)
SELECT counts.*, quantiles.survival, quantiles.p50_us, quantiles.p95_us, quantiles.p99_us
FROM counts
LEFT JOIN quantiles
  ON quantiles.cluster IS NOT DISTINCT FROM counts.cluster AND quantiles.queue IS NOT DISTINCT FROM counts.queue
  AND quantiles.namespace IS NOT DISTINCT FROM counts.namespace AND quantiles.tenant IS NOT DISTINCT FROM counts.tenant
  AND quantiles.priority IS NOT DISTINCT FROM counts.priority AND quantiles.workload IS NOT DISTINCT FROM counts.workload
  AND quantiles.person IS NOT DISTINCT FROM counts.person
ORDER BY ALL;

-- name: request_counts
-- Demands by what became of them: those whose wait began in the window, and those of them that wait still. Who asks for more than its queue can ever
-- have never fits, whatever its decider says. Who waits counts also where the length of its wait is not known.
WITH capacity AS (
  SELECT cluster, queue, TRY_CAST(sum(max_capacity_milli) AS BIGINT) AS capacity_milli
  FROM dim.quota_now
  WHERE queue_kind IN ('cluster_queue', 'volcano_queue') AND regexp_extract(resource, '[^/.]+$') IN ('gpu', 'pgpu', 'npu')
  GROUP BY cluster, queue
  HAVING count(*) = count(max_capacity_milli) AND count(DISTINCT resource) = 1
),
requests AS (
  SELECT
    w.cluster, w.demand_id, bool_or(w.ended_at IS NULL) AS is_waiting, bool_or(w.ended_by IS NOT DISTINCT FROM 'abandoned') AS is_abandoned,
    bool_or(w.ended_at IS NULL AND coalesce(w.fit = 'never_fits' OR w.gpu_milli > c.capacity_milli, FALSE)) AS never_fits
  FROM ledger.wait AS w
  LEFT JOIN dim.demand AS d ON $of_demands AND d.cluster = w.cluster AND d.demand_id = w.demand_id
  LEFT JOIN capacity AS c ON c.cluster = w.cluster AND c.queue = w.queue
  WHERE (w.stage = CASE WHEN w.demand_kind = 'pod' THEN 'scheduler' ELSE 'queue' END OR w.stage IN ('queue', 'gate') AND w.unknown_reason IS NOT NULL)
    AND w.started_at >= make_timestamp($from_us::BIGINT) AND w.started_at < make_timestamp($to_us::BIGINT)
    AND is_among(w.cluster, $cluster_wanted) AND is_among(w.queue, $queue_wanted) AND is_among(w.namespace, $namespace_wanted)
    AND is_among(d.tenant, $tenant_wanted) AND is_among(d.priority, $priority_wanted) AND is_among(d.person, $person_wanted)
    AND is_among(d.workload_kind || '/' || d.workload_name, $workload_wanted) AND is_among(w.demand_id, $demand_id_wanted)
  GROUP BY w.cluster, w.demand_id
)
SELECT
  count(*) AS requests_count, count(*) FILTER (WHERE is_waiting) AS waiting_count, count(*) FILTER (WHERE never_fits) AS never_fits_count,
  count(*) FILTER (WHERE is_abandoned) AS abandoned_count
FROM requests;

-- name: fulfilment
-- Of the waits that began in the window for no more than the queue's own quota: how many got it within the ceiling, how many may still.
SELECT
  CASE WHEN list_contains($by, 'cluster') THEN w.cluster END AS cluster,
  CASE WHEN list_contains($by, 'queue') THEN w.queue END AS queue,
  CASE WHEN list_contains($by, 'namespace') THEN w.namespace END AS namespace,
  CASE WHEN list_contains($by, 'tenant') THEN d.tenant END AS tenant,
  CASE WHEN list_contains($by, 'priority') THEN d.priority END AS priority,
  CASE WHEN list_contains($by, 'workload') THEN d.workload_kind || '/' || d.workload_name END AS workload,
  CASE WHEN list_contains($by, 'person') THEN d.person END AS person,
  count(*) AS asked_count,
  count(*) FILTER (WHERE w.ended_by IN ('reserved', 'scheduled', 'running') AND epoch_us(w.ended_at) - epoch_us(w.started_at) <= $ceiling_us) AS granted_count,
  count(*) FILTER (WHERE w.ended_at IS NULL AND epoch_us(w.known_to_at) - epoch_us(w.started_at) <= $ceiling_us) AS undecided_count
FROM ledger.wait AS w
JOIN (
  SELECT cluster, queue, max(nominal_milli) AS nominal_milli
  FROM dim.quota_now
  WHERE queue_kind IN ('cluster_queue', 'volcano_queue')
  GROUP BY cluster, queue
) AS own ON own.cluster = w.cluster AND own.queue = w.queue AND w.gpu_milli <= own.nominal_milli
LEFT JOIN dim.demand AS d ON d.cluster = w.cluster AND d.demand_id = w.demand_id
WHERE w.stage = 'queue' AND w.unknown_reason IS NULL AND w.gpu_milli > 0
  AND w.started_at >= make_timestamp($from_us::BIGINT) AND w.started_at < make_timestamp($to_us::BIGINT)
  AND is_among(w.cluster, $cluster_wanted) AND is_among(w.queue, $queue_wanted) AND is_among(w.namespace, $namespace_wanted)
  AND is_among(d.tenant, $tenant_wanted) AND is_among(d.priority, $priority_wanted) AND is_among(d.person, $person_wanted)
  AND is_among(d.workload_kind || '/' || d.workload_name, $workload_wanted) AND is_among(w.demand_id, $demand_id_wanted)
GROUP BY 1, 2, 3, 4, 5, 6, 7;

-- name: asked_names
-- What the demands that are asked about are called, as findings name their subjects.
SELECT CASE d.demand_kind WHEN 'workload' THEN 'workload ' WHEN 'pod' THEN 'pod ' ELSE 'job ' END || d.namespace || '/' || d.name AS subject
FROM dim.demand AS d
WHERE is_among(d.cluster, $cluster_wanted) AND is_among(d.queue, $queue_wanted) AND is_among(d.namespace, $namespace_wanted)
  AND is_among(d.tenant, $tenant_wanted) AND is_among(d.priority, $priority_wanted) AND is_among(d.person, $person_wanted)
  AND is_among(d.workload_kind || '/' || d.workload_name, $workload_wanted) AND is_among(d.demand_id, $demand_id_wanted)
UNION
SELECT lower(gang.object_kind) || ' ' || gang.namespace || '/' || gang.name
FROM dim.demand AS d
JOIN dim.gang AS gang ON gang.cluster = d.cluster AND d.demand_id IN (gang.object_uid, gang.owner_uid)
WHERE d.demand_kind <> 'pod'
  AND is_among(d.cluster, $cluster_wanted) AND is_among(d.queue, $queue_wanted) AND is_among(d.namespace, $namespace_wanted)
  AND is_among(d.tenant, $tenant_wanted) AND is_among(d.priority, $priority_wanted) AND is_among(d.person, $person_wanted)
  AND is_among(d.workload_kind || '/' || d.workload_name, $workload_wanted) AND is_among(d.demand_id, $demand_id_wanted)
UNION
SELECT 'pod ' || pod.namespace || '/' || pod.pod
FROM dim.demand AS d
JOIN dim.demand_pod AS member ON member.cluster = d.cluster AND member.demand_id = d.demand_id
JOIN dim.pod AS pod ON pod.cluster = member.cluster AND pod.pod_uid = member.pod_uid
WHERE is_among(d.cluster, $cluster_wanted) AND is_among(d.queue, $queue_wanted) AND is_among(d.namespace, $namespace_wanted)
  AND is_among(d.tenant, $tenant_wanted) AND is_among(d.priority, $priority_wanted) AND is_among(d.person, $person_wanted)
  AND is_among(d.workload_kind || '/' || d.workload_name, $workload_wanted) AND is_among(d.demand_id, $demand_id_wanted);
