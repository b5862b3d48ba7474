-- Episodes of over-use: stretches of ledger.excess that samples join, annotations that are larger than their request, and pods to which cards stand open.
-- device_uuid NULL: the node's cards. An episode goes on (ended_at NULL) while its last sample is the latest look and not older than
-- dim.over_use_threshold.shown_us. Soft episodes that repeat count for a pod, card and rule, the weekly excess for a pod and rule.
WITH
joined AS (
    SELECT
        *,
        sum(CASE WHEN continues THEN 0 ELSE 1 END) OVER (
            PARTITION BY cluster, pod_uid, device_uuid, gi, rule ORDER BY started_at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS episode_no
    FROM ledger.excess
),

shown AS (
    SELECT
        cluster, pod_uid, device_uuid, gi, rule, epoch_us(min(started_at)) AS from_us, epoch_us(max(shown_to_at)) AS to_us, arg_max(is_last, started_at) AS is_last,
        string_agg(DISTINCT basis, '+' ORDER BY basis) AS basis, CAST(sum(samples_count) AS BIGINT) AS samples_count, max(interval_us) AS interval_us,
        max(granted_mib) AS granted_mib, max(peak_mib) AS peak_mib, CASE WHEN count(excess_mib_us) = count(*) THEN CAST(sum(excess_mib_us) AS BIGINT) END AS excess_mib_us,
        max(granted_percent) AS granted_percent, max(peak_ppm) AS peak_ppm, CASE WHEN count(excess_gpu_us) = count(*) THEN CAST(sum(excess_gpu_us) AS BIGINT) END AS excess_gpu_us,
        CAST(sum(excess_least_gpu_us) AS BIGINT) AS excess_least_gpu_us
    FROM joined
    GROUP BY cluster, pod_uid, device_uuid, gi, rule, episode_no
),

weighed AS (
    SELECT
        shown.*, shown.to_us - shown.from_us AS length_us,
        count(*) FILTER (WHERE shown.to_us > shown.from_us AND shown.to_us - shown.from_us < threshold.soft_us) OVER (
            PARTITION BY shown.cluster, shown.pod_uid, shown.device_uuid, shown.gi, shown.rule ORDER BY shown.from_us
            RANGE BETWEEN (threshold.repeated_us - 1) PRECEDING AND CURRENT ROW
        ) AS soft_in_time,
        sum(shown.excess_least_gpu_us) OVER (
            PARTITION BY shown.cluster, shown.pod_uid, shown.rule ORDER BY shown.to_us RANGE BETWEEN (threshold.weekly_us - 1) PRECEDING AND CURRENT ROW
        ) AS weekly_gpu_us,
        threshold.soft_us, threshold.repeated_count, threshold.weekly_gpu_us AS weekly_limit_us, threshold.shown_us
    FROM shown
    CROSS JOIN dim.over_use_threshold AS threshold
),

card AS (
    SELECT cluster, device_uuid, max(memory_mib) AS memory_mib
    FROM dim.device
    WHERE memory_mib > 0
    GROUP BY cluster, device_uuid
),

larger AS (
    SELECT
        cluster, pod_uid, device_uuid, CAST(sum(memory_mib) AS BIGINT) AS memory_mib, CAST(sum(cores_percent) AS BIGINT) AS cores_percent,
        CAST(sum(allowed_memory_mib) AS BIGINT) AS allowed_mib, CAST(sum(requested_cores_percent) AS BIGINT) AS allowed_percent,
        CASE WHEN count(memory_mib - allowed_memory_mib) = count(*) THEN CAST(sum(above_milli(memory_mib, allowed_memory_mib)) AS BIGINT) END AS more_mib,
        CAST(sum(above_milli(cores_percent, requested_cores_percent)) AS BIGINT) AS more_percent
    FROM dim."grant"
    WHERE larger_than_request AND standing IN ('counts', 'suspect') AND device_uuid IS NOT NULL
    GROUP BY cluster, pod_uid, device_uuid
),

tampered AS (
    SELECT
        larger.*, held.from_us, held.ended_us, held.to_us,
        larger.more_mib = 0 OR (larger.more_mib IS NOT NULL AND card.memory_mib IS NOT NULL) AS told,
        least(greatest(coalesce(larger.more_mib * 1000000 // card.memory_mib, 0), coalesce(larger.more_percent * 10000, 0)), 1000000) AS more_ppm
    FROM larger
    JOIN (
        SELECT
            cluster, pod_uid, device_uuid, epoch_us(min(started_at)) AS from_us,
            CASE WHEN count(ended_at) = count(*) THEN epoch_us(max(ended_at)) END AS ended_us, epoch_us(max(coalesce(ended_at, known_to_at))) AS to_us
        FROM ledger.holding
        WHERE occupancy <> 'reserved' AND device_uuid IS NOT NULL
        GROUP BY cluster, pod_uid, device_uuid
    ) AS held ON held.cluster = larger.cluster AND held.pod_uid = larger.pod_uid AND held.device_uuid = larger.device_uuid
    LEFT JOIN card ON card.cluster = larger.cluster AND card.device_uuid = larger.device_uuid
),

-- Pods on nodes with cards to which these stand open: those that they do not hold whole, or their own part where the layer is switched off.
opened AS (
    SELECT
        spec.cluster, spec.pod_uid, spec.gpu_exposure, epoch_us(coalesce(pod.first_container_at, pod.started_at, pod.scheduled_at, pod.first_seen_at)) AS from_us,
        epoch_us(coalesce(pod.last_container_end_at, pod.gone_by_at)) AS ended_us, epoch_us(pod.last_seen_at) AS seen_us, pod.namespace, pod.node
    FROM dim.excess_spec AS spec
    JOIN dim.pod AS pod ON pod.cluster = spec.cluster AND pod.pod_uid = spec.pod_uid
    WHERE spec.gpu_exposure <> '' AND pod.node IS NOT NULL AND NOT pod.rejected AND coalesce(pod.phase, '') <> 'Pending'
        AND pod.namespace NOT IN (SELECT name FROM dim.over_use_exempt WHERE kind = 'namespace')
),

exposed AS (
    SELECT opened.*
    FROM opened
    WHERE NOT EXISTS (SELECT 1 FROM ledger.excess WHERE excess.cluster = opened.cluster AND excess.pod_uid = opened.pod_uid)
        AND (
            (
                opened.gpu_exposure <> 'shim_off'
                AND EXISTS (
                    SELECT 1
                    FROM dim.device AS device
                    LEFT JOIN dim.excess_held AS held
                        ON held.cluster = device.cluster AND held.device_uuid = device.device_uuid AND held.pod_uid = opened.pod_uid AND held.is_whole
                    WHERE device.cluster = opened.cluster AND device.node = opened.node AND device.valid_to_at IS NULL AND held.cluster IS NULL
                )
            )
            OR (
                contains(opened.gpu_exposure, 'shim_off')
                AND EXISTS (SELECT 1 FROM dim.excess_held AS held WHERE held.cluster = opened.cluster AND held.pod_uid = opened.pod_uid AND held.unit_kind = 'vgpu')
            )
        )
),

episode AS (
    SELECT
        weighed.cluster, weighed.pod_uid, weighed.device_uuid, weighed.gi, weighed.rule,
        over_use_hard_reason(
            weighed.rule, weighed.length_us, weighed.soft_in_time, weighed.weekly_gpu_us, weighed.soft_us, weighed.repeated_count, weighed.weekly_limit_us
        ) AS hard_reason,
        weighed.from_us, CASE WHEN weighed.is_last AND weighed.to_us + weighed.shown_us > epoch_us(parameter.as_of_at) THEN NULL ELSE weighed.to_us END AS ended_us,
        weighed.to_us AS known_us, weighed.samples_count, weighed.interval_us, weighed.granted_mib, weighed.peak_mib, weighed.excess_mib_us, weighed.granted_percent,
        weighed.peak_ppm // 10000 AS peak_percent, weighed.excess_gpu_us, weighed.excess_least_gpu_us, weighed.basis,
        CASE
            WHEN weighed.basis = 'process' THEN 'process_in_cgroup'
            WHEN contains(weighed.basis, 'soft_partition') THEN 'counted_by_layer'
            ELSE 'sole_holder_of_card'
        END AS evidence_grade
    FROM weighed
    CROSS JOIN dim.parameter AS parameter
    UNION ALL
    SELECT
        cluster, pod_uid, device_uuid, NULL, 'tampered_grant', 'bypass', from_us, ended_us, to_us, 0, NULL, allowed_mib, memory_mib, more_mib * (to_us - from_us), allowed_percent,
        cores_percent, CASE WHEN told THEN CAST(CAST(more_ppm AS HUGEINT) * (to_us - from_us) // 1000000 AS BIGINT) END,
        CAST(CAST(more_ppm AS HUGEINT) * (to_us - from_us) // 1000000 AS BIGINT), 'annotation', 'written_in_annotation'
    FROM tampered
    UNION ALL
    SELECT
        cluster, pod_uid, NULL, NULL, 'exposed', NULL, from_us, ended_us, greatest(coalesce(ended_us, seen_us), from_us), 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, gpu_exposure,
        'written_in_pod'
    FROM exposed
)

SELECT
    cluster, pod_uid, device_uuid, gi, rule, CASE WHEN rule = 'exposed' THEN 'exposed' WHEN hard_reason IS NOT NULL THEN 'hard' ELSE 'soft' END AS severity, hard_reason,
    make_timestamp(from_us) AS started_at, make_timestamp(ended_us) AS ended_at, make_timestamp(known_us) AS known_to_at, samples_count, interval_us, granted_mib, peak_mib,
    excess_mib_us, granted_percent, peak_percent, excess_gpu_us, excess_least_gpu_us, basis, evidence_grade
FROM episode
