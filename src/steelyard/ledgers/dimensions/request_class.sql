-- What was asked for and how often: one row per shape and hour of creation, so that the typical requests of any month before any instant are a sum of rows.
-- A pod with its retries is one request (the latest attempt speaks); each pod of a gang is one, since each wants a place of its own.
-- cards_count NULL: its source could not tell; such rows are counted, never guessed.
WITH asked AS (
  SELECT
    p.cluster, p.gpu_count, p.requested_gpu_milli, p.requested_memory_mib, p.requested_cores_percent, p.resource_names, p.gpu_model, p.cpu_milli,
    min(coalesce(p.created_at, p.first_seen_at)) OVER (PARTITION BY d.cluster, d.demand_id, CASE WHEN d.demand_kind <> 'pod' THEN d.pod_uid END) AS asked_at,
    row_number() OVER (
      PARTITION BY d.cluster, d.demand_id, CASE WHEN d.demand_kind <> 'pod' THEN d.pod_uid END
      ORDER BY coalesce(p.created_at, p.first_seen_at) DESC, p.pod_uid DESC
    ) AS attempt
  FROM dim.demand_pod AS d
  JOIN dim.pod_life AS p ON p.cluster = d.cluster AND p.pod_uid = d.pod_uid
)
SELECT
  cluster, date_trunc('hour', asked_at) AS asked_hour_at, gpu_count AS cards_count, requested_gpu_milli AS gpu_milli,
  requested_memory_mib AS memory_mib, requested_cores_percent AS cores_percent, resource_names, gpu_model AS model, cpu_milli,
  count(*) AS requests_count
FROM asked
WHERE attempt = 1
GROUP BY ALL
