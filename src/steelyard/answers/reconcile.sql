-- Reconcile: what was requested, granted, enforced, counted and reported by the device, beside each other.

-- name: grain
SELECT grain_us, epoch_us(as_of_at) AS as_of_us FROM dim.parameter;

-- name: held
-- Requested and granted, clipped to the window, of every pod on a card that is known. $open_to_us: so far reaches what has no end yet.
SELECT
  held.cluster, held.device_uuid, held.gi, held.pod_uid, min(held.namespace) AS namespace, min(held.pod) AS pod, max(held.node) AS node,
  string_agg(DISTINCT held.containers, ',' ORDER BY held.containers) AS containers, min(held.scheme) AS scheme, max(held.unit_kind) AS unit_kind, max(held.profile) AS profile,
  max(held.evidence_grade) AS evidence_grade, max(held.occupancy = 'in_suspense') AS in_suspense,
  CAST(sum(held.length_us) AS DECIMAL(38, 0)) AS held_us,
  CAST(sum(held.length_us * held.memory_mib) AS DECIMAL(38, 0)) AS granted_mib_us,
  CAST(sum(CASE WHEN held.memory_mib IS NOT NULL THEN held.length_us END) AS DECIMAL(38, 0)) AS granted_us,
  CAST(sum(held.length_us * held.cores_percent) AS DECIMAL(38, 0)) AS granted_percent_us,
  CAST(sum(CASE WHEN held.cores_percent IS NOT NULL THEN held.length_us END) AS DECIMAL(38, 0)) AS granted_percent_held_us,
  CAST(sum(held.length_us * held.requested_mib) AS DECIMAL(38, 0)) AS requested_mib_us,
  CAST(sum(CASE WHEN held.requested_mib IS NOT NULL THEN held.length_us END) AS DECIMAL(38, 0)) AS requested_us,
  CAST(sum(held.length_us * held.requested_percent) AS DECIMAL(38, 0)) AS requested_percent_us,
  CAST(sum(CASE WHEN held.requested_percent IS NOT NULL THEN held.length_us END) AS DECIMAL(38, 0)) AS requested_percent_held_us
FROM (
  SELECT
    holding.*,
    CASE WHEN holding.segment = 0 THEN asked.first_mib ELSE asked.app_mib END AS requested_mib,
    CASE WHEN holding.segment = 0 THEN asked.first_percent ELSE asked.app_percent END AS requested_percent,
    least(CASE WHEN holding.ended_at IS NULL THEN greatest(epoch_us(holding.known_to_at), $open_to_us::BIGINT) ELSE epoch_us(holding.ended_at) END, $to_us::BIGINT)
      - greatest(epoch_us(holding.started_at), $from_us::BIGINT) AS length_us
  FROM ledger.holding AS holding
  LEFT JOIN dim.deviation_asked AS asked
    ON asked.cluster = holding.cluster AND asked.pod_uid = holding.pod_uid AND asked.device_uuid = holding.device_uuid
  WHERE holding.device_uuid IS NOT NULL AND holding.occupancy IN ('held', 'in_suspense')
) AS held
WHERE held.length_us > 0
GROUP BY held.cluster, held.device_uuid, held.gi, held.pod_uid
ORDER BY held.cluster, held.device_uuid, held.gi, held.pod_uid;

-- name: sampled
-- What was sampled of pods on cards and of cards (pod_uid NULL), in the grains of the window; the last word of each by its instant.
SELECT
  deviation.cluster, deviation.device_uuid, deviation.gi, deviation.pod_uid,
  CAST(sum(enforced_mib_us) AS DECIMAL(38, 0)) AS enforced_mib_us, CAST(sum(enforced_observed_us) AS DECIMAL(38, 0)) AS enforced_us,
  CAST(sum(counted_mib_us) AS DECIMAL(38, 0)) AS counted_mib_us, CAST(sum(counted_observed_us) AS DECIMAL(38, 0)) AS counted_us,
  CAST(sum(device_mib_us) AS DECIMAL(38, 0)) AS device_mib_us, CAST(sum(device_observed_us) AS DECIMAL(38, 0)) AS device_us,
  CAST(sum(scheduler_mib_us) AS DECIMAL(38, 0)) AS scheduler_mib_us, CAST(sum(scheduler_observed_us) AS DECIMAL(38, 0)) AS scheduler_us,
  CAST(sum(counted_less_device_mib_us) AS DECIMAL(38, 0)) AS less_mib_us, CAST(sum(both_observed_us) AS DECIMAL(38, 0)) AS both_us,
  CAST(sum(counted_percent_us) AS DECIMAL(38, 0)) AS counted_percent_us, CAST(sum(counted_percent_observed_us) AS DECIMAL(38, 0)) AS counted_percent_seen_us,
  CAST(sum(device_percent_us) AS DECIMAL(38, 0)) AS device_percent_us, CAST(sum(device_percent_observed_us) AS DECIMAL(38, 0)) AS device_percent_seen_us,
  CAST(sum(scheduler_percent_us) AS DECIMAL(38, 0)) AS scheduler_percent_us,
  CAST(sum(scheduler_percent_observed_us) AS DECIMAL(38, 0)) AS scheduler_percent_seen_us,
  arg_max(enforced_last_mib, last_at) AS enforced_last_mib, arg_max(counted_last_mib, last_at) AS counted_last_mib,
  arg_max(device_last_mib, last_at) AS device_last_mib, arg_max(scheduler_last_mib, last_at) AS scheduler_last_mib,
  arg_max(counted_last_ppm, last_at) AS counted_last_ppm, arg_max(device_last_ppm, last_at) AS device_last_ppm,
  arg_max(scheduler_last_ppm, last_at) AS scheduler_last_ppm,
  epoch_us(max(last_at)) AS last_us, max(device_path) AS device_path,
  CAST(sum(monitor_samples_count) AS BIGINT) AS monitor_samples_count, CAST(sum(scheduler_samples_count) AS BIGINT) AS scheduler_samples_count,
  CAST(sum(device_samples_count) AS BIGINT) AS device_samples_count, CAST(sum(refused_count) AS BIGINT) AS refused_count
FROM ledger.deviation AS deviation
WHERE grain_at >= make_timestamp($from_us::BIGINT) AND grain_at < make_timestamp($to_us::BIGINT)
GROUP BY deviation.cluster, deviation.device_uuid, deviation.gi, deviation.pod_uid
ORDER BY deviation.cluster, deviation.device_uuid, deviation.gi, deviation.pod_uid;

-- name: refused_cards
-- Cards of which the layer's own word was refused, in the grains of the window.
SELECT DISTINCT cluster, substr(subject, 8) AS device_uuid
FROM fact.finding
WHERE source = 'hami' AND code IN ('value_above_physical', 'utilisation_over_100') AND starts_with(subject, 'device ')
  AND occurred_at >= make_timestamp($from_us::BIGINT) AND occurred_at < make_timestamp($to_us::BIGINT);

-- name: used
-- What the device reports where no sharing layer speaks: memory, and the share of time in which something ran (1001, else 203).
SELECT
  cluster, device_uuid, gi, pod_uid, max(path) AS path,
  CAST(sum(memory_mib_us) AS DECIMAL(38, 0)) AS memory_mib_us, CAST(sum(observed_us) AS DECIMAL(38, 0)) AS observed_us, max(memory_peak_mib) AS memory_peak_mib,
  CAST(sum(coalesce(engine_upper_gpu_us, compute_upper_gpu_us)) AS DECIMAL(38, 0)) AS active_gpu_us,
  CAST(sum(CASE WHEN engine_upper_gpu_us IS NOT NULL THEN engine_observed_us ELSE compute_observed_us END) AS DECIMAL(38, 0)) AS active_us
FROM ledger.usage
WHERE grain_at >= make_timestamp($from_us::BIGINT) AND grain_at < make_timestamp($to_us::BIGINT)
  AND path IN ('device', 'exclusive', 'mig', 'process')
GROUP BY cluster, device_uuid, gi, pod_uid;

-- name: series
-- The deviation over time, of all cards: what was counted less what the device has, and what the scheduler's cache says less what is granted.
SELECT
  epoch_us(grain_at) AS grain_us,
  CAST(sum(counted_less_device_mib_us) AS DECIMAL(38, 0)) AS less_mib_us, CAST(sum(both_observed_us) AS DECIMAL(38, 0)) AS both_us,
  CAST(sum(scheduler_mib_us) AS DECIMAL(38, 0)) AS scheduler_mib_us, CAST(sum(scheduler_observed_us) AS DECIMAL(38, 0)) AS scheduler_us,
  CAST(sum(granted_mib_us) AS DECIMAL(38, 0)) AS granted_mib_us, CAST(sum(counted_last_mib - device_last_mib) AS DECIMAL(38, 0)) AS last_less_mib
FROM ledger.deviation
WHERE pod_uid IS NULL AND grain_at >= make_timestamp($from_us::BIGINT) AND grain_at < make_timestamp($to_us::BIGINT)
GROUP BY grain_at
ORDER BY grain_at;

-- name: pods
SELECT cluster, pod_uid, namespace, pod, tenant, workload_kind, workload_name, queue, qos, scheduler, phase FROM dim.pod;

-- name: cards
SELECT cluster, device_uuid, node, device_index, model, vendor, memory_mib, schedulable_memory_mib, mode
FROM dim.device
QUALIFY row_number() OVER (PARTITION BY cluster, device_uuid ORDER BY valid_from_at DESC NULLS LAST, node) = 1;

-- name: deviations
-- Findings about what differs: the ledger's own, as of now, and what the readers of the layer said, each once.
SELECT cluster, code, severity, subject, arg_max(message, occurred_at) AS message, evidence, epoch_us(max(occurred_at)) AS seen_us, count(*) AS times
FROM (
  SELECT cluster, code, severity, subject, message, evidence, occurred_at FROM ledger.finding
  WHERE source = 'ledger.deviation' OR code IN ('grant_larger_than_request', 'memory_scaled')
  UNION ALL
  SELECT cluster, code, severity, subject, message, evidence, occurred_at
  FROM fact.finding
  WHERE source = 'hami' AND code IN (
      'value_above_physical', 'utilisation_over_100', 'duplicate_metric_names', 'duplicate_names_disagree', 'counter_typed_level',
      'components_do_not_add_up', 'series_without_node_label', 'container_index_always_zero', 'quota_limit_zero_is_unlimited', 'row_without_device',
      'device_mode_conflict', 'tampered_grant_impossible', 'mig_allocation_mismatch'
    )
    AND occurred_at >= make_timestamp($from_us::BIGINT) AND occurred_at < make_timestamp($to_us::BIGINT)
) AS told
GROUP BY cluster, code, severity, subject, evidence
ORDER BY CASE severity WHEN 'error' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END, code, subject, evidence;
