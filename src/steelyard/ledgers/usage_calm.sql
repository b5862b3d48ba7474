-- Cards and hours of which sums tell what the card itself did: neither this hour's samples nor those of the one before are odd (sample_odd), and the card
-- has no samples of GPU instances in the whole window. Each sample then stands for its minute, whatever comes after it, so that all that is left of
-- usage_stretch, which reads the other hours, is sums. is_turned: a holding of the card (or of its node) begins or ends within that hour, or a process
-- of a pod that does not hold it may stand there, so that what its holders used is told by usage_stretch; in any other hour its one holder has the sums, too. Figures as there; second_mib: the second largest of
-- the memory figures (the 99th percentile of up to 60 lies between it and the largest). $ledger: `deviation` has every stretch in usage_stretch.
WITH
hour AS (
    SELECT
        cluster, device_uuid, hour_us, CAST(sum(samples_count) AS BIGINT) AS samples_count,
        CAST(sum(memory_count) AS BIGINT) AS memory_count, CAST(sum(memory_sum_mib) AS BIGINT) AS memory_sum_mib,
        max(peak_mib, 2) AS peaks_mib, max(second_mib) AS second_mib,
        CAST(sum(util_count) AS BIGINT) AS util_count, CAST(sum(util_sum_ppm) AS BIGINT) AS util_sum_ppm,
        CAST(sum(engine_count) AS BIGINT) AS engine_count, CAST(sum(engine_sum_ppm) AS BIGINT) AS engine_sum_ppm,
        CAST(sum(sm_count) AS BIGINT) AS sm_count, CAST(sum(sm_sum_ppm) AS BIGINT) AS sm_sum_ppm,
        CAST(sum(dram_count) AS BIGINT) AS dram_count, CAST(sum(dram_sum_ppm) AS BIGINT) AS dram_sum_ppm,
        CAST(sum(used_count) AS BIGINT) AS used_count, CAST(sum(used_sum_ppm) AS BIGINT) AS used_sum_ppm
    FROM dim.sample_hour
    WHERE $ledger <> 'deviation'
    GROUP BY cluster, device_uuid, hour_us
),

turned AS (
    SELECT cluster, place_kind, place_id, device_uuid, unnest([started_at, coalesce(ended_at, known_to_at)]) AS turned_at
    FROM ledger.holding
    WHERE started_at < make_timestamp(CAST($to_us AS BIGINT)) AND coalesce(ended_at, known_to_at) > make_timestamp(CAST($from_us AS BIGINT))
),

-- Hours in which a process of a pod that does not hold the card then may stand: of each name that a round may go by.
process AS (
    SELECT
        named.cluster, named.device_uuid, named.pod_uid,
        unnest(range(named.hour_us, named.hour_us + 3600000001 + reach.reach_us, 3600000000)) AS hour_us
    FROM (
        SELECT process.cluster, process.device_uuid, process.hour_us, coalesce(alias.pod_uid, process.pod_uid) AS pod_uid
        FROM (
            SELECT DISTINCT cluster, device_uuid, pod_uid, grain_start_us(epoch_us(occurred_at), 3600000000) AS hour_us
            FROM fact.process_sample
            WHERE pod_uid IS NOT NULL AND $ledger <> 'deviation'
                AND occurred_at BETWEEN make_timestamp(CAST($read_from_us AS BIGINT)) AND make_timestamp(CAST($read_to_us AS BIGINT))
        ) AS process
        LEFT JOIN dim.pod_alias AS alias ON alias.cluster = process.cluster AND alias.alias = process.pod_uid
    ) AS named
    CROSS JOIN (SELECT greatest(3600000000, coalesce(max(gap_max_us), 0)) - 3600000000 AS reach_us FROM dim.usage_gap) AS reach
),

-- Hours within which a holder comes or goes, or somebody else is on the card.
turn AS (
    SELECT process.cluster, process.device_uuid, process.hour_us
    FROM process
    WHERE NOT EXISTS (
        SELECT 1
        FROM ledger.holding AS holding
        WHERE holding.cluster = process.cluster AND holding.device_uuid = process.device_uuid AND holding.pod_uid = process.pod_uid
            AND holding.occupancy <> 'reserved' AND holding.started_at <= make_timestamp(process.hour_us)
            AND coalesce(holding.ended_at, holding.known_to_at) >= make_timestamp(process.hour_us + 3600000000)
    )
    UNION
    SELECT DISTINCT cluster, device_uuid, epoch_us(date_trunc('hour', turned_at)) AS hour_us
    FROM (
        SELECT cluster, device_uuid, turned_at FROM turned WHERE device_uuid IS NOT NULL
        UNION ALL
        SELECT turned.cluster, card.device_uuid, turned.turned_at
        FROM turned
        JOIN dim.device AS card ON turned.place_kind = 'node' AND card.cluster = turned.cluster AND card.node = turned.place_id
    ) AS edge
    WHERE turned_at > date_trunc('hour', turned_at)
)

SELECT
    hour.* EXCLUDE (peaks_mib, second_mib), turn.cluster IS NOT NULL AS is_turned, hour.peaks_mib[1] AS peak_mib,
    coalesce(greatest(hour.peaks_mib[2], hour.second_mib), hour.peaks_mib[1]) AS second_mib
FROM hour
LEFT JOIN (SELECT DISTINCT cluster, device_uuid FROM dim.sample_hour WHERE gi IS NOT NULL) AS split
    ON split.cluster = hour.cluster AND split.device_uuid = hour.device_uuid
LEFT JOIN dim.sample_odd AS odd ON odd.cluster = hour.cluster AND odd.device_uuid = hour.device_uuid AND odd.hour_us = hour.hour_us
LEFT JOIN turn ON turn.cluster = hour.cluster AND turn.device_uuid = hour.device_uuid AND turn.hour_us = hour.hour_us
WHERE split.cluster IS NULL AND odd.cluster IS NULL AND (SELECT grain_us FROM dim.parameter) = 3600000000
