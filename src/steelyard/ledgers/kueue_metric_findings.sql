-- Histograms of Kueue whose buckets are others than its releases document (fact.metric_sample, bounds below +Inf): 14 up to 10240 s, for the wait for admission 16
-- up to 40960 s as well. A percentile is told up to the top bound that is there, and thresholds that were made for another release fit other buckets.
WITH
bounds AS (
  SELECT cluster, metric, labels, count(DISTINCT le) AS buckets_count, max(try_cast(le AS DOUBLE)) AS top_seconds
  FROM fact.metric_sample
  WHERE family = 'queue' AND kind = 'bucket' AND le <> '+Inf' AND metric IN (
    'kueue_quota_reserved_wait_time_seconds', 'kueue_admission_wait_time_seconds', 'kueue_admission_checks_wait_time_seconds',
    'kueue_ready_wait_time_seconds', 'kueue_admitted_until_ready_wait_time_seconds'
  )
  GROUP BY cluster, metric, labels
),
found AS (
  SELECT
    cluster, 'bucket_count' AS code, 'metric ' || metric AS subject,
    'its histogram has ' || max(buckets_count) || ' buckets below +Inf, documented are 14: percentiles are told up to ' || CAST(max(top_seconds) AS BIGINT) || ' s'
      AS message,
    json_object('metric', metric, 'buckets_count', max(buckets_count), 'fact_sheet_buckets_count', 14, 'top_bound_seconds', max(top_seconds)) AS evidence
  FROM bounds
  WHERE buckets_count <> 14 AND NOT (metric = 'kueue_admission_wait_time_seconds' AND buckets_count = 16)
  GROUP BY cluster, metric
)
SELECT
  found.cluster, 'kueue' AS source, found.code || '/' || found.subject AS natural_key, parameter.as_of_at AS occurred_at,
  parameter.as_of_at AS observed_at, found.code, 'info' AS severity, found.subject, found.message, CAST(found.evidence AS VARCHAR) AS evidence,
  CAST(NULL AS VARCHAR) AS file, CAST(NULL AS BIGINT) AS line, CAST(NULL AS VARCHAR) AS excerpt
FROM found
CROSS JOIN dim.parameter AS parameter
