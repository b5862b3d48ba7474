-- Everything that is laid side by side, each as stretches [from_us, to_us) of a pod on a card and, with pod_uid NULL, of the card: what was requested and
-- granted (kind held), what the monitor enforces and counts, what the scheduler's cache says, what the device reports.
-- mib and ppm are the figures of the kind, other_mib and other_ppm its second ones: of held the request, of monitor the limit.
WITH
scope AS (
    SELECT cluster, device_uuid FROM dim.device WHERE vendor_registered
    UNION
    SELECT cluster, device_uuid
    FROM ledger.holding
    WHERE scheme IN ('hami', 'hami_vendor', 'volcano_vgpu') AND device_uuid IS NOT NULL
),

held AS (
    SELECT
        holding.cluster, holding.device_uuid, holding.gi, holding.pod_uid, holding.occupancy, holding.memory_mib AS mib,
        CASE WHEN holding.segment = 0 THEN asked.first_mib ELSE asked.app_mib END AS other_mib,
        holding.cores_percent * 10000 AS ppm,
        10000 * CASE WHEN holding.segment = 0 THEN asked.first_percent ELSE asked.app_percent END AS other_ppm,
        epoch_us(holding.started_at) AS from_us, epoch_us(coalesce(holding.ended_at, holding.known_to_at)) AS to_us
    FROM ledger.holding AS holding
    JOIN scope ON scope.cluster = holding.cluster AND scope.device_uuid = holding.device_uuid
    LEFT JOIN dim.deviation_asked AS asked
        ON asked.cluster = holding.cluster AND asked.pod_uid = holding.pod_uid AND asked.device_uuid = holding.device_uuid
    WHERE holding.occupancy <> 'reserved' AND coalesce(holding.ended_at, holding.known_to_at) > holding.started_at
        AND holding.started_at < make_timestamp(CAST($to_us AS BIGINT))
        AND coalesce(holding.ended_at, holding.known_to_at) > make_timestamp(CAST($from_us AS BIGINT))
),

monitor AS (
    SELECT cluster, device_uuid, gi, pod_uid, counted_mib, limit_mib, sm_ppm, refused_count, from_us, to_us
    FROM dim.deviation_partition
    WHERE origin = 'monitor' AND is_live
),

-- What was counted on a card in one round: of the pods that hold it, as far as it is known of all that the monitor names.
monitor_card AS (
    SELECT
        cluster, device_uuid, CAST(sum(counted_mib) AS BIGINT) AS counted_mib, CAST(sum(limit_mib) AS BIGINT) AS limit_mib,
        CAST(least(sum(sm_ppm), 1000000) AS BIGINT) AS sm_ppm, CAST(sum(refused_count) AS BIGINT) AS refused_count, from_us, max(to_us) AS to_us
    FROM monitor
    GROUP BY cluster, device_uuid, from_us
),

board AS (
    SELECT DISTINCT cluster, device_uuid FROM dim.usage_stretch WHERE gi IS NULL
)

SELECT 'held' AS kind, cluster, device_uuid, gi, pod_uid, mib, other_mib, ppm, other_ppm, CAST(NULL AS VARCHAR) AS path, 0 AS refused_count, FALSE AS is_sample, from_us, to_us
FROM held
UNION ALL
SELECT 'held', cluster, device_uuid, NULL, NULL, mib, other_mib, ppm, other_ppm, NULL, 0, FALSE, from_us, to_us FROM held WHERE occupancy = 'held'
UNION ALL
SELECT 'monitor', cluster, device_uuid, gi, pod_uid, counted_mib, limit_mib, sm_ppm, NULL, NULL, refused_count, TRUE, from_us, to_us FROM monitor
UNION ALL
SELECT
    'monitor', cluster, device_uuid, NULL, NULL, counted_mib, limit_mib, sm_ppm, NULL, NULL, refused_count, TRUE, from_us,
    least(to_us, coalesce(lead(from_us) OVER (PARTITION BY cluster, device_uuid ORDER BY from_us), to_us))
FROM monitor_card
UNION ALL
SELECT 'scheduler', cluster, device_uuid, gi, pod_uid, allocated_mib, NULL, cores_percent * 10000, NULL, NULL, refused_count, TRUE, from_us, to_us
FROM dim.deviation_partition
WHERE origin = 'scheduler'
UNION ALL
SELECT 'device', stretch.cluster, stretch.device_uuid, NULL, NULL, stretch.memory_mib, NULL, coalesce(stretch.engine_ppm, stretch.util_ppm), NULL, 'device', 0, TRUE, stretch.from_us, stretch.to_us
FROM dim.usage_stretch AS stretch
JOIN scope ON scope.cluster = stretch.cluster AND scope.device_uuid = stretch.device_uuid
WHERE stretch.gi IS NULL
UNION ALL
SELECT
    'device', stretch.cluster, stretch.device_uuid, holder.gi, holder.pod_uid, stretch.memory_mib, NULL, coalesce(stretch.engine_ppm, stretch.util_ppm), NULL,
    CASE WHEN stretch.gi IS NULL THEN 'exclusive' ELSE 'mig' END, 0, TRUE,
    greatest(stretch.from_us, holder.from_us), least(stretch.to_us, holder.to_us)
FROM dim.usage_stretch AS stretch
JOIN scope ON scope.cluster = stretch.cluster AND scope.device_uuid = stretch.device_uuid
JOIN dim.usage_holder AS holder
    ON holder.cluster = stretch.cluster AND holder.device_uuid = stretch.device_uuid AND holder.gi IS NOT DISTINCT FROM stretch.gi
    AND stretch.from_us >= holder.from_us AND stretch.from_us < holder.to_us
UNION ALL
SELECT 'device', process.cluster, process.device_uuid, process.gi, process.pod_uid, process.memory_mib, NULL, NULL, NULL, 'process', 0, TRUE, process.from_us, process.to_us
FROM dim.usage_process AS process
JOIN scope ON scope.cluster = process.cluster AND scope.device_uuid = process.device_uuid
LEFT JOIN dim.usage_holder AS holder
    ON holder.cluster = process.cluster AND holder.device_uuid = process.device_uuid AND holder.pod_uid = process.pod_uid
    AND (holder.gi IS NULL OR holder.gi = process.gi) AND process.from_us >= holder.from_us AND process.from_us < holder.to_us
WHERE holder.cluster IS NULL
