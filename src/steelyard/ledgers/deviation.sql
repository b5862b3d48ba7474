-- What was requested, granted, enforced, counted and reported by the device, side by side, per pod and card (pod_uid NULL: the card) and grain
-- (see deviation.py). Each amount over the time in which it was observed; a difference only where both sides were.
WITH
parameter AS (
    SELECT grain_us FROM dim.parameter
),

part AS (
    SELECT
        kind, cluster, device_uuid, gi, pod_uid, mib, other_mib, ppm, other_ppm, path, from_us AS instant_us, grain_us_at,
        is_sample AND from_us >= grain_us_at AS is_first, refused_count,
        greatest(0, least(to_us, grain_us_at + grain_us) - greatest(from_us, grain_us_at)) AS length_us
    FROM (
        SELECT
            span.*, parameter.grain_us,
            unnest(range(grain_start_us(span.from_us, parameter.grain_us), greatest(span.to_us, span.from_us + 1), parameter.grain_us)) AS grain_us_at
        FROM dim.deviation_span AS span
        CROSS JOIN parameter
    ) AS cut
),

-- Where what was counted and what the device reports are both known: their steps in the order of time, added up.
step AS (
    SELECT
        cluster, device_uuid, gi, pod_uid, at_us, CAST(sum(counted_mib) AS BIGINT) AS counted_mib, CAST(sum(counted_on) AS BIGINT) AS counted_on,
        CAST(sum(device_mib) AS BIGINT) AS device_mib, CAST(sum(device_on) AS BIGINT) AS device_on
    FROM (
        SELECT
            cluster, device_uuid, gi, pod_uid, unnest([from_us, to_us]) AS at_us,
            CASE WHEN kind = 'monitor' THEN unnest([mib, -mib]) ELSE 0 END AS counted_mib,
            CASE WHEN kind = 'monitor' THEN unnest([1, -1]) ELSE 0 END AS counted_on,
            CASE WHEN kind = 'device' THEN unnest([mib, -mib]) ELSE 0 END AS device_mib,
            CASE WHEN kind = 'device' THEN unnest([1, -1]) ELSE 0 END AS device_on
        FROM dim.deviation_span
        WHERE kind IN ('monitor', 'device') AND mib IS NOT NULL AND to_us > from_us
    ) AS edge
    GROUP BY cluster, device_uuid, gi, pod_uid, at_us
),

both_part AS (
    SELECT
        cluster, device_uuid, gi, pod_uid, counted_mib - device_mib AS less_mib, grain_us_at,
        least(to_us, grain_us_at + grain_us) - greatest(from_us, grain_us_at) AS length_us
    FROM (
        SELECT
            stood.*, parameter.grain_us,
            unnest(range(grain_start_us(stood.from_us, parameter.grain_us), stood.to_us, parameter.grain_us)) AS grain_us_at
        FROM (
            SELECT
                cluster, device_uuid, gi, pod_uid, at_us AS from_us, lead(at_us) OVER sweep AS to_us,
                CAST(sum(counted_mib) OVER sweep AS BIGINT) AS counted_mib, sum(counted_on) OVER sweep AS counted_on,
                CAST(sum(device_mib) OVER sweep AS BIGINT) AS device_mib, sum(device_on) OVER sweep AS device_on
            FROM step
            WINDOW sweep AS (PARTITION BY cluster, device_uuid, gi, pod_uid ORDER BY at_us)
        ) AS stood
        CROSS JOIN parameter
        WHERE stood.counted_on > 0 AND stood.device_on > 0
    ) AS cut
),

both_seen AS (
    SELECT
        cluster, device_uuid, gi, pod_uid, grain_us_at, CAST(sum(length_us) AS BIGINT) AS both_observed_us,
        CAST(sum(length_us * less_mib) AS BIGINT) AS less_mib_us
    FROM both_part
    GROUP BY cluster, device_uuid, gi, pod_uid, grain_us_at
),

summed AS (
    SELECT
        cluster, device_uuid, gi, pod_uid, grain_us_at,
        CAST(coalesce(sum(length_us) FILTER (WHERE kind = 'held'), 0) AS BIGINT) AS held_us,
        CAST(sum(length_us * other_mib) FILTER (WHERE kind = 'held') AS BIGINT) AS requested_mib_us,
        CAST(coalesce(sum(length_us) FILTER (WHERE kind = 'held' AND other_mib IS NOT NULL), 0) AS BIGINT) AS requested_us,
        CAST(sum(length_us * mib) FILTER (WHERE kind = 'held') AS BIGINT) AS granted_mib_us,
        CAST(coalesce(sum(length_us) FILTER (WHERE kind = 'held' AND mib IS NOT NULL), 0) AS BIGINT) AS granted_us,
        CAST(sum(length_us * other_mib) FILTER (WHERE kind = 'monitor' AND length_us > 0) AS BIGINT) AS enforced_mib_us,
        CAST(coalesce(sum(length_us) FILTER (WHERE kind = 'monitor' AND other_mib IS NOT NULL), 0) AS BIGINT) AS enforced_observed_us,
        CAST(sum(length_us * mib) FILTER (WHERE kind = 'monitor' AND length_us > 0) AS BIGINT) AS counted_mib_us,
        CAST(coalesce(sum(length_us) FILTER (WHERE kind = 'monitor' AND mib IS NOT NULL), 0) AS BIGINT) AS counted_observed_us,
        CAST(sum(length_us * mib) FILTER (WHERE kind = 'device' AND length_us > 0) AS BIGINT) AS device_mib_us,
        CAST(coalesce(sum(length_us) FILTER (WHERE kind = 'device' AND mib IS NOT NULL), 0) AS BIGINT) AS device_observed_us,
        CAST(sum(length_us * mib) FILTER (WHERE kind = 'scheduler' AND length_us > 0) AS BIGINT) AS scheduler_mib_us,
        CAST(coalesce(sum(length_us) FILTER (WHERE kind = 'scheduler' AND mib IS NOT NULL), 0) AS BIGINT) AS scheduler_observed_us,
        CAST(sum(length_us * other_ppm) FILTER (WHERE kind = 'held') // 10000 AS BIGINT) AS requested_percent_us,
        CAST(sum(length_us * ppm) FILTER (WHERE kind = 'held') // 10000 AS BIGINT) AS granted_percent_us,
        CAST(sum(length_us * ppm) FILTER (WHERE kind = 'monitor' AND length_us > 0) // 10000 AS BIGINT) AS counted_percent_us,
        CAST(coalesce(sum(length_us) FILTER (WHERE kind = 'monitor' AND ppm IS NOT NULL), 0) AS BIGINT) AS counted_percent_observed_us,
        CAST(sum(length_us * ppm) FILTER (WHERE kind = 'device' AND length_us > 0) // 10000 AS BIGINT) AS device_percent_us,
        CAST(coalesce(sum(length_us) FILTER (WHERE kind = 'device' AND ppm IS NOT NULL), 0) AS BIGINT) AS device_percent_observed_us,
        CAST(sum(length_us * ppm) FILTER (WHERE kind = 'scheduler' AND length_us > 0) // 10000 AS BIGINT) AS scheduler_percent_us,
        CAST(coalesce(sum(length_us) FILTER (WHERE kind = 'scheduler' AND ppm IS NOT NULL), 0) AS BIGINT) AS scheduler_percent_observed_us,
        arg_max(other_mib, instant_us) FILTER (WHERE kind = 'monitor' AND is_first) AS enforced_last_mib,
        arg_max(mib, instant_us) FILTER (WHERE kind = 'monitor' AND is_first) AS counted_last_mib,
        arg_max(mib, instant_us) FILTER (WHERE kind = 'device' AND is_first) AS device_last_mib,
        arg_max(mib, instant_us) FILTER (WHERE kind = 'scheduler' AND is_first) AS scheduler_last_mib,
        arg_max(ppm, instant_us) FILTER (WHERE kind = 'monitor' AND is_first) AS counted_last_ppm,
        arg_max(ppm, instant_us) FILTER (WHERE kind = 'device' AND is_first) AS device_last_ppm,
        arg_max(ppm, instant_us) FILTER (WHERE kind = 'scheduler' AND is_first) AS scheduler_last_ppm,
        max(instant_us) FILTER (WHERE is_first) AS last_us,
        max(path) AS device_path,
        count(*) FILTER (WHERE kind = 'monitor' AND is_first) AS monitor_samples_count,
        count(*) FILTER (WHERE kind = 'scheduler' AND is_first) AS scheduler_samples_count,
        count(*) FILTER (WHERE kind = 'device' AND is_first) AS device_samples_count,
        CAST(coalesce(sum(refused_count) FILTER (WHERE is_first), 0) AS BIGINT) AS refused_count
    FROM part
    WHERE date_trunc('hour', make_timestamp(grain_us_at)) IN (SELECT hour_at FROM dim.deviation_hour)
    GROUP BY cluster, device_uuid, gi, pod_uid, grain_us_at
)

SELECT
    summed.cluster, summed.device_uuid, summed.gi, summed.pod_uid, make_timestamp(summed.grain_us_at) AS grain_at, held_us,
    requested_mib_us, requested_us, granted_mib_us, granted_us, enforced_mib_us, enforced_observed_us, counted_mib_us, counted_observed_us, device_mib_us,
    device_observed_us, scheduler_mib_us, scheduler_observed_us, both_seen.less_mib_us AS counted_less_device_mib_us,
    coalesce(both_seen.both_observed_us, 0) AS both_observed_us, requested_percent_us, granted_percent_us, counted_percent_us,
    counted_percent_observed_us, device_percent_us, device_percent_observed_us, scheduler_percent_us, scheduler_percent_observed_us,
    enforced_last_mib, counted_last_mib, device_last_mib, scheduler_last_mib, counted_last_ppm, device_last_ppm, scheduler_last_ppm,
    make_timestamp(last_us) AS last_at, device_path, monitor_samples_count, scheduler_samples_count, device_samples_count, refused_count
FROM summed
LEFT JOIN both_seen
    ON both_seen.cluster = summed.cluster AND both_seen.device_uuid = summed.device_uuid AND both_seen.gi IS NOT DISTINCT FROM summed.gi
    AND both_seen.pod_uid IS NOT DISTINCT FROM summed.pod_uid AND both_seen.grain_us_at = summed.grain_us_at
