-- What the sharing layer's monitor counted of pods on cards, one row per instant: a pod's containers are added up where all are known, a name is the pod
-- that bore it then. More than the card has is no figure, nor is what stands beside a neighbour of whom nothing is counted (is_doubtful: layers are known
-- to lay the use of two pods on one). What the card itself has in use is the most that a pod can have (the card's last word of the quarter before).
WITH
told AS (
    SELECT
        cluster, device_uuid, namespace, pod, container, occurred_at, max(pod_uid) AS pod_uid, max(memory_counted_mib) AS counted_mib,
        max(CASE WHEN sm_ratio IS NOT NULL AND last_kernel_seconds >= 300 THEN 0 ELSE ratio_ppm(sm_ratio) END) AS sm_ppm
    FROM fact.partition_sample
    WHERE origin = 'monitor' AND pod IS NOT NULL
        AND occurred_at BETWEEN (SELECT history_from_at FROM dim.parameter) AND (SELECT horizon_at FROM dim.parameter)
        AND occurred_at BETWEEN make_timestamp(CAST($read_from_us AS BIGINT)) AND make_timestamp(CAST($read_to_us AS BIGINT))
    GROUP BY cluster, device_uuid, namespace, pod, container, occurred_at
),

bearer AS (
    SELECT
        cluster, alias, pod_uid, coalesce(created_at, TIMESTAMP '1970-01-01') AS from_at,
        coalesce(lead(coalesce(created_at, TIMESTAMP '1970-01-01')) OVER turns, TIMESTAMP '9999-12-31') AS to_at
    FROM (
        SELECT cluster, alias, created_at, arg_max(pod_uid, (seen, pod_uid)) AS pod_uid
        FROM dim.pod_alias
        GROUP BY cluster, alias, created_at
    ) AS named
    WINDOW turns AS (PARTITION BY cluster, alias ORDER BY coalesce(created_at, TIMESTAMP '1970-01-01'))
),

card AS (
    SELECT cluster, device_uuid, max(memory_mib) AS memory_mib
    FROM dim.device
    GROUP BY cluster, device_uuid
),

summed AS (
    SELECT
        told.cluster, told.device_uuid, coalesce(told.pod_uid, bearer.pod_uid) AS pod_uid, epoch_us(told.occurred_at) AS instant_us,
        CASE
            WHEN count(told.counted_mib) = count(*) AND coalesce(max(told.counted_mib <= card.memory_mib), TRUE) AND min(told.counted_mib) >= 0
                THEN CAST(least(sum(told.counted_mib), 100000000) AS BIGINT)
        END AS counted_mib,
        CASE WHEN count(told.sm_ppm) = count(*) THEN CAST(least(sum(told.sm_ppm), 1000000) AS BIGINT) END AS sm_ppm
    FROM told
    LEFT JOIN bearer
        ON bearer.cluster = told.cluster AND bearer.alias = 'name:' || coalesce(told.namespace, '') || '/' || told.pod
        AND told.occurred_at >= bearer.from_at AND told.occurred_at < bearer.to_at
    LEFT JOIN card ON card.cluster = told.cluster AND card.device_uuid = told.device_uuid
    GROUP BY told.cluster, told.device_uuid, coalesce(told.pod_uid, bearer.pod_uid), told.occurred_at
),

doubted AS (
    SELECT
        *,
        count(*) FILTER (WHERE coalesce(counted_mib, 0) = 0) OVER beside > CASE WHEN coalesce(counted_mib, 0) = 0 THEN 1 ELSE 0 END AS is_doubtful
    FROM summed
    WINDOW beside AS (PARTITION BY cluster, device_uuid, instant_us)
)

SELECT
    doubted.cluster, doubted.device_uuid, doubted.pod_uid, doubted.instant_us,
    CASE
        WHEN NOT doubted.is_doubtful AND doubted.counted_mib IS NOT NULL
            THEN least(
                doubted.counted_mib,
                CASE WHEN doubted.instant_us - board.instant_us < threshold.shown_us THEN board.used_mib END
            )
    END AS used_mib,
    CASE WHEN NOT doubted.is_doubtful THEN doubted.sm_ppm END AS used_ppm
FROM doubted
CROSS JOIN dim.over_use_threshold AS threshold
ASOF LEFT JOIN dim.excess_board AS board
    ON board.cluster = doubted.cluster AND board.device_uuid = doubted.device_uuid AND doubted.instant_us >= board.instant_us
WHERE doubted.pod_uid IS NOT NULL
