-- What a sharing layer's exporters said of each pod and card, one row per instant, and what it stands for: [from_us, to_us), empty for an instant
-- that stands alone (see usage_stretch). A pod's containers are added up where all are known; a name is the pod that bore it at that instant.
-- What the monitor says of a pod that does not hold the card is not use (is_live). More than the card has is no figure, and
-- neither is what its reader refused (below 0, above what any card has, above 105 %): both are counted as refused. A container whose last kernel is five minutes old is idle, whatever figure stayed. A utilisation of 0 of all pods of a card that is at work is not measured: the layer counts only where it limits.
WITH
told AS (
    SELECT
        cluster, origin, device_uuid, namespace, pod, container, occurred_at, max(source) AS source, max(pod_uid) AS pod_uid, max(gi) AS gi,
        max(memory_limit_mib) AS limit_mib, max(memory_counted_mib) AS counted_mib, max(memory_allocated_mib) AS allocated_mib,
        max(cores_allocated_percent) AS cores_percent, max(CASE WHEN sm_ratio IS NOT NULL AND last_kernel_seconds >= 300 THEN 0 ELSE ratio_ppm(sm_ratio) END) AS sm_ppm,
        count(*) FILTER (WHERE contains(unknown, ':"outside its physical range') OR contains(unknown, ':"prof_suspect')) AS refused_count
    FROM fact.partition_sample
    WHERE origin IN ('monitor', 'scheduler')
        AND occurred_at BETWEEN (SELECT history_from_at FROM dim.parameter) AND (SELECT horizon_at FROM dim.parameter)
        AND occurred_at BETWEEN make_timestamp(CAST($read_from_us AS BIGINT)) AND make_timestamp(CAST($read_to_us AS BIGINT))
    GROUP BY cluster, origin, device_uuid, namespace, pod, container, occurred_at
),

-- Who bore a name from when on: its pods one after the other, by creation.
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
    SELECT cluster, device_uuid, max(memory_mib) AS memory_mib, max(node) AS node
    FROM dim.device
    GROUP BY cluster, device_uuid
),

life AS (
    SELECT
        cluster, pod_uid, device_uuid, max(gi) AS gi, min(started_at) AS started_at,
        max(CASE WHEN ended_at IS NULL THEN TIMESTAMP '9999-12-31' ELSE ended_at END) AS ended_at
    FROM ledger.holding
    WHERE occupancy <> 'reserved' AND device_uuid IS NOT NULL
    GROUP BY cluster, pod_uid, device_uuid
),

summed AS (
    SELECT
        told.cluster, told.origin, told.device_uuid, told.occurred_at, max(told.source) AS source, max(told.gi) AS said_gi,
        CASE WHEN told.pod IS NOT NULL THEN coalesce(told.pod_uid, bearer.pod_uid, 'name:' || coalesce(told.namespace, '') || '/' || told.pod) END AS pod_uid,
        CASE WHEN count(told.limit_mib) = count(*) THEN CAST(sum(told.limit_mib) AS BIGINT) END AS limit_mib,
        CASE WHEN count(told.counted_mib) = count(*) AND coalesce(max(told.counted_mib <= card.memory_mib), TRUE) THEN CAST(sum(told.counted_mib) AS BIGINT) END AS counted_mib,
        CASE WHEN count(told.allocated_mib) = count(*) THEN CAST(sum(told.allocated_mib) AS BIGINT) END AS allocated_mib,
        CASE WHEN count(told.cores_percent) = count(*) THEN CAST(sum(told.cores_percent) AS BIGINT) END AS cores_percent,
        CASE WHEN count(told.sm_ppm) = count(*) THEN CAST(least(sum(told.sm_ppm), 1000000) AS BIGINT) END AS sm_ppm,
        CAST(count(*) FILTER (WHERE told.counted_mib > card.memory_mib) + sum(told.refused_count) AS BIGINT) AS refused_count,
        any_value(card.node) AS node
    FROM told
    LEFT JOIN bearer
        ON bearer.cluster = told.cluster AND bearer.alias = 'name:' || coalesce(told.namespace, '') || '/' || told.pod
        AND told.occurred_at >= bearer.from_at AND told.occurred_at < bearer.to_at
    LEFT JOIN card ON card.cluster = told.cluster AND card.device_uuid = told.device_uuid
    GROUP BY ALL
),

-- Cards on which everything counted stands at 0 although the card was at work in that minute.
still_card AS (
    SELECT monitor.cluster, monitor.device_uuid, monitor.minute_us
    FROM (
        SELECT cluster, device_uuid, epoch_us(occurred_at) // 60000000 AS minute_us
        FROM summed
        WHERE origin = 'monitor'
        GROUP BY cluster, device_uuid, epoch_us(occurred_at) // 60000000
        HAVING max(sm_ppm) = 0
    ) AS monitor
    JOIN (
        SELECT cluster, device_uuid, from_us // 60000000 AS minute_us, max(coalesce(engine_ppm, util_ppm)) AS active_ppm
        FROM dim.usage_stretch
        WHERE gi IS NULL
        GROUP BY cluster, device_uuid, from_us // 60000000
    ) AS board
        ON board.cluster = monitor.cluster AND board.device_uuid = monitor.device_uuid AND board.minute_us = monitor.minute_us
    WHERE board.active_ppm >= 50000
),

timed AS (
    SELECT
        summed.*, coalesce(life.gi, summed.said_gi) AS gi,
        coalesce(summed.occurred_at >= life.started_at AND summed.occurred_at < life.ended_at, FALSE) AS is_live,
        epoch_us(summed.occurred_at) AS from_us,
        CASE WHEN summed.origin = 'monitor' AND life.ended_at > summed.occurred_at THEN epoch_us(life.ended_at) ELSE 4611686018427387904 END AS over_us,
        epoch_us(
            lead(summed.occurred_at) OVER (PARTITION BY summed.cluster, summed.origin, summed.device_uuid, summed.pod_uid ORDER BY summed.occurred_at)
        ) AS next_us,
        greatest(coalesce(of_node.gap_max_us, 0), coalesce(of_all.gap_max_us, 0)) AS gap_max_us,
        still_card.cluster IS NOT NULL AS is_still
    FROM summed
    LEFT JOIN life
        ON life.cluster = summed.cluster AND life.pod_uid = summed.pod_uid AND life.device_uuid = summed.device_uuid
    LEFT JOIN dim.usage_gap AS of_node
        ON of_node.cluster = summed.cluster AND of_node.source = summed.source AND of_node.scope = 'node/' || summed.node
    LEFT JOIN dim.usage_gap AS of_all
        ON of_all.cluster = summed.cluster AND of_all.source = summed.source AND of_all.scope = 'cluster'
    LEFT JOIN still_card
        ON still_card.cluster = summed.cluster AND still_card.device_uuid = summed.device_uuid
        AND still_card.minute_us = epoch_us(summed.occurred_at) // 60000000
)

SELECT
    cluster, origin, device_uuid, gi, pod_uid, is_live, limit_mib, counted_mib, allocated_mib, cores_percent,
    CASE WHEN NOT is_still THEN sm_ppm END AS sm_ppm, refused_count, from_us,
    least(CASE WHEN next_us - from_us <= gap_max_us THEN next_us ELSE from_us END, over_us) AS to_us
FROM timed
