-- Cards and hours of which sums tell what the card itself did: neither this hour's samples nor those of the one before are odd (sample_odd), and the card
-- has no samples of GPU instances in the whole window. Each sample then stands for its minute, whatever comes after it, so that all that is left of
-- usage_stretch, which reads the other hours, is sums. is_turned: a holding of the card (or of its node) begins or ends within that hour, so that what
-- its holders used is told by usage_stretch; in any other hour its one holder has the sums, too. Figures as there; second_mib: the second largest of
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

-- Hours within which a holder comes or goes.
turn AS (
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
