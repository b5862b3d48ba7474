-- Stretches of a grain in which samples show a pod above its tolerance on a card, or where it has no business: what episodes are made of.
-- excess_gpu_us, excess_mib_us: NULL where a sample of it does not tell; excess_least_gpu_us: what the others come to.
-- continues: the samples show it as going on from the grain before. is_last: nobody looked after its last sample. curve: `second of the grain:value` of each
-- minute, comma separated, MiB in use (of compute: ppm of the card).
WITH
run AS (
    SELECT
        *, grain_start_us(instant_us, (SELECT grain_us FROM dim.parameter)) AS grain_from_us,
        sum(CASE WHEN continues THEN 0 ELSE 1 END) OVER (
            PARTITION BY rule, cluster, device_uuid, gi, pod_uid ORDER BY instant_us ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS run_no
    FROM dim.excess_seen
    WHERE is_over
),

minute AS (
    SELECT rule, cluster, device_uuid, gi, pod_uid, grain_from_us, run_no, (instant_us - grain_from_us) // 60000000 AS minute_no,
        max(CASE WHEN rule = 'compute' THEN used_ppm ELSE used_mib END) AS value
    FROM run
    GROUP BY rule, cluster, device_uuid, gi, pod_uid, grain_from_us, run_no, (instant_us - grain_from_us) // 60000000
),

drawn AS (
    SELECT rule, cluster, device_uuid, gi, pod_uid, grain_from_us, run_no, string_agg(minute_no * 60 || ':' || value, ',' ORDER BY minute_no) AS curve
    FROM minute
    WHERE value IS NOT NULL
    GROUP BY rule, cluster, device_uuid, gi, pod_uid, grain_from_us, run_no
),

added AS (
    SELECT
        rule, cluster, device_uuid, gi, pod_uid, grain_from_us, run_no, min(instant_us) AS from_us, max(to_us) AS to_us, arg_min(continues, instant_us) AS continues,
        arg_max(next_us IS NULL, instant_us) AS is_last, string_agg(DISTINCT path, '+' ORDER BY path) AS basis, CAST(sum(samples_count) AS BIGINT) AS samples_count,
        coalesce(nullif(max(to_us - instant_us), 0), min(near_us)) AS interval_us, max(granted_mib) AS granted_mib, max(used_mib) AS peak_mib,
        CASE WHEN count(excess_mib) = count(*) THEN CAST(sum(excess_mib * (to_us - instant_us)) AS BIGINT) END AS excess_mib_us, max(granted_percent) AS granted_percent, max(used_ppm) AS peak_ppm,
        count(excess_ppm) = count(*) AS told,
        CAST(coalesce(sum(CAST(excess_ppm AS HUGEINT) * (to_us - instant_us)), 0) // 1000000 AS BIGINT) AS excess_least_gpu_us
    FROM run
    GROUP BY rule, cluster, device_uuid, gi, pod_uid, grain_from_us, run_no
)

SELECT
    added.cluster, added.pod_uid, added.device_uuid, added.gi, added.rule, make_timestamp(added.grain_from_us) AS grain_at, make_timestamp(added.from_us) AS started_at,
    make_timestamp(added.to_us) AS shown_to_at, added.continues, added.is_last, added.basis, added.samples_count, added.interval_us, added.granted_mib, added.peak_mib,
    added.excess_mib_us, added.granted_percent, added.peak_ppm,
    CASE WHEN added.told THEN added.excess_least_gpu_us END AS excess_gpu_us, added.excess_least_gpu_us, coalesce(drawn.curve, '') AS curve
FROM added
LEFT JOIN drawn
    ON drawn.rule = added.rule AND drawn.cluster = added.cluster AND drawn.device_uuid = added.device_uuid AND drawn.gi IS NOT DISTINCT FROM added.gi
    AND drawn.pod_uid = added.pod_uid AND drawn.grain_from_us = added.grain_from_us AND drawn.run_no = added.run_no
