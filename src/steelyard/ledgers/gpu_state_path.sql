-- Where a card has several holders: in which minutes of an hour a pod was seen active on it, or inactive, on a path of its own. Best first: what a sharing
-- layer counts of the pod, then its processes. A reading stands for its minute, and until the next one where its interval or its source's gap reaches.
-- A process whose part is not known tells nothing; of a pod none of whose processes is listed nothing is told either.
WITH
reading AS (
    SELECT
        cluster, source, device_uuid, coalesce(pod_uid, 'name:' || namespace || '/' || pod) AS named, occurred_at, 1 AS path_no,
        CAST(NULL AS BIGINT) AS interval_us,
        max(measured_ratio(sm_ratio)) AS sm, min(CASE WHEN last_kernel_seconds >= 0 THEN last_kernel_seconds END) AS kernel_seconds,
        TRUE AS is_whole
    FROM fact.partition_sample
    WHERE origin IN ('monitor', 'dcgm_per_process') AND (sm_ratio IS NOT NULL OR last_kernel_seconds IS NOT NULL)
        AND occurred_at BETWEEN make_timestamp(CAST($read_from_us AS BIGINT)) AND make_timestamp(CAST($read_to_us AS BIGINT))
        AND occurred_at BETWEEN (SELECT history_from_at FROM dim.parameter) AND (SELECT horizon_at FROM dim.parameter)
    GROUP BY cluster, source, device_uuid, named, occurred_at
    UNION ALL
    SELECT
        cluster, source, device_uuid, pod_uid, occurred_at, 2, max(interval_us), sum(measured_ratio(sm_ratio)), NULL,
        count(measured_ratio(sm_ratio)) = count(*)
    FROM fact.process_sample
    WHERE pod_uid IS NOT NULL
        AND occurred_at BETWEEN make_timestamp(CAST($read_from_us AS BIGINT)) AND make_timestamp(CAST($read_to_us AS BIGINT))
        AND occurred_at BETWEEN (SELECT history_from_at FROM dim.parameter) AND (SELECT horizon_at FROM dim.parameter)
    GROUP BY cluster, source, device_uuid, pod_uid, occurred_at
),

resolved AS (
    SELECT cluster, source, device_uuid, pod_uid, occurred_at, path_no, interval_us, sm, kernel_seconds, is_whole
    FROM (
        SELECT
            reading.* EXCLUDE (named), coalesce(alias.pod_uid, reading.named) AS pod_uid,
            row_number() OVER (
                PARTITION BY reading.cluster, reading.source, reading.device_uuid, reading.named, reading.occurred_at, reading.path_no
                ORDER BY alias.seen DESC NULLS LAST, alias.created_at DESC NULLS LAST, alias.pod_uid
            ) AS choice
        FROM reading
        LEFT JOIN dim.pod_alias AS alias
            ON alias.cluster = reading.cluster AND alias.alias = reading.named
            AND (alias.created_at IS NULL OR alias.created_at <= reading.occurred_at)
        WHERE reading.named IS NOT NULL
    ) AS named
    WHERE choice = 1
),

home AS (
    SELECT cluster, device_uuid, max(node) AS node
    FROM dim.device
    GROUP BY cluster, device_uuid
),

judged AS (
    SELECT
        resolved.cluster, resolved.device_uuid, resolved.pod_uid, resolved.path_no, epoch_us(resolved.occurred_at) AS from_us, resolved.interval_us,
        greatest(coalesce(of_node.gap_max_us, 0), coalesce(of_all.gap_max_us, 0)) AS gap_max_us,
        epoch_us(
            lead(resolved.occurred_at) OVER (
                PARTITION BY resolved.cluster, resolved.device_uuid, resolved.pod_uid, resolved.path_no
                ORDER BY resolved.occurred_at, resolved.source
            )
        ) AS next_us,
        CASE
            WHEN resolved.sm >= threshold.idle_ratio THEN TRUE
            WHEN resolved.sm IS NOT NULL AND resolved.is_whole THEN FALSE
            WHEN resolved.kernel_seconds IS NOT NULL THEN resolved.kernel_seconds < 60
        END AS is_active
    FROM resolved
    CROSS JOIN dim.state_threshold AS threshold
    LEFT JOIN home ON home.cluster = resolved.cluster AND home.device_uuid = resolved.device_uuid
    LEFT JOIN dim.usage_gap AS of_node
        ON of_node.cluster = resolved.cluster AND of_node.source = resolved.source AND of_node.scope = 'node/' || home.node
    LEFT JOIN dim.usage_gap AS of_all
        ON of_all.cluster = resolved.cluster AND of_all.source = resolved.source AND of_all.scope = 'cluster'
),

stretch AS (
    SELECT
        cluster, device_uuid, pod_uid, path_no, is_active, grain_start_us(from_us, 60000000) AS from_us,
        greatest(
            grain_start_us(from_us, 60000000) + 60000000,
            CASE
                WHEN interval_us > 0 THEN least(from_us + least(interval_us, 3600000000), coalesce(next_us, 4611686018427387904))
                WHEN next_us - from_us <= gap_max_us THEN grain_start_us(next_us, 60000000)
                ELSE from_us
            END
        ) AS to_us
    FROM judged
    WHERE is_active IS NOT NULL
),

lit AS (
    SELECT
        cluster, device_uuid, pod_uid, hour_us, path_no, is_active,
        bit_or(
            minutes_between(
                (greatest(from_us, hour_us) - hour_us) // 60000000, (least(to_us, hour_us + 3600000000) - 1 - hour_us) // 60000000
            )
        ) AS minutes_mask
    FROM (SELECT *, unnest(range(grain_start_us(from_us, 3600000000), to_us, 3600000000)) AS hour_us FROM stretch) AS cut
    GROUP BY cluster, device_uuid, pod_uid, hour_us, path_no, is_active
),

by_path AS (
    SELECT
        cluster, device_uuid, pod_uid, hour_us,
        coalesce(bit_or(CASE WHEN path_no = 1 AND is_active THEN minutes_mask END), 0) AS layer_active,
        coalesce(bit_or(CASE WHEN path_no = 1 AND NOT is_active THEN minutes_mask END), 0) AS layer_inactive,
        coalesce(bit_or(CASE WHEN path_no = 2 AND is_active THEN minutes_mask END), 0) AS process_active,
        coalesce(bit_or(CASE WHEN path_no = 2 AND NOT is_active THEN minutes_mask END), 0) AS process_inactive
    FROM lit
    GROUP BY cluster, device_uuid, pod_uid, hour_us
)

SELECT
    cluster, device_uuid, pod_uid, hour_us,
    layer_active | (process_active & ~layer_inactive) AS active_mask,
    (layer_inactive & ~layer_active) | (process_inactive & ~process_active & ~layer_active & ~layer_inactive) AS inactive_mask
FROM by_path
