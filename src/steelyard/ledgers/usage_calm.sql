-- Cards and hours of which one grouping tells all that the usage ledger needs: in the whole window the card's samples are one a minute, on the minute,
-- each for its minute, none of a GPU instance, and no holding of the card (or of its node) begins or ends within that hour. Each sample then stands for
-- its minute, whatever comes after it, so that all that is left of usage_stretch, which reads the other hours, is sums. Figures as there; second_mib: the
-- second largest of the memory figures (the 99th percentile of up to 60 lies between it and the largest). $ledger: only `usage` reads calm hours, other
-- ledgers have every stretch in usage_stretch.
WITH
sample AS (
    SELECT
        cluster, device_uuid, occurred_at, gi,
        coalesce(interval_us = 60000000, FALSE) AND epoch_us(occurred_at) % 60000000 = 0 AS is_whole,
        CASE WHEN memory_used_mib BETWEEN 0 AND coalesce(memory_total_mib, 100000000) THEN memory_used_mib END AS memory_mib,
        ratio_ppm(util_gpu_ratio) AS util_ppm, ratio_ppm(gr_active_ratio) AS engine_ppm, ratio_ppm(sm_active_ratio) AS sm_ppm,
        ratio_ppm(dram_active_ratio) AS dram_ppm
    FROM fact.device_sample
    WHERE $ledger = 'usage'
        AND occurred_at BETWEEN make_timestamp(CAST($read_from_us AS BIGINT)) AND make_timestamp(CAST($read_to_us AS BIGINT))
),

trusted AS (
    SELECT
        cluster, device_uuid, occurred_at, gi, is_whole, memory_mib, util_ppm,
        CASE WHEN NOT suspect THEN engine_ppm END AS engine_ppm,
        CASE WHEN NOT suspect THEN sm_ppm END AS sm_ppm,
        CASE WHEN NOT suspect THEN dram_ppm END AS dram_ppm
    FROM (SELECT *, coalesce(util_ppm > 500000 AND engine_ppm = 0, FALSE) AS suspect FROM sample) AS marked
),

hour AS (
    SELECT
        cluster, device_uuid, date_trunc('hour', occurred_at) AS hour_at,
        count(*) AS samples_count, bit_or(CAST(1 AS BIGINT) << extract('minute' FROM occurred_at)) AS minutes_mask,
        bool_and(is_whole) AND count(gi) = 0 AS is_even,
        count(memory_mib) AS memory_count, CAST(sum(memory_mib) AS BIGINT) AS memory_sum_mib, max(memory_mib, 2) AS largest_mib,
        count(util_ppm) AS util_count, CAST(sum(util_ppm) AS BIGINT) AS util_sum_ppm,
        count(engine_ppm) AS engine_count, CAST(sum(engine_ppm) AS BIGINT) AS engine_sum_ppm,
        count(sm_ppm) AS sm_count, CAST(sum(sm_ppm) AS BIGINT) AS sm_sum_ppm,
        count(dram_ppm) AS dram_count, CAST(sum(dram_ppm) AS BIGINT) AS dram_sum_ppm,
        count(used_share_ppm(sm_ppm, dram_ppm)) AS used_count, CAST(sum(used_share_ppm(sm_ppm, dram_ppm)) AS BIGINT) AS used_sum_ppm
    FROM trusted
    GROUP BY cluster, device_uuid, date_trunc('hour', occurred_at)
),

turned AS (
    SELECT cluster, place_kind, place_id, device_uuid, unnest([started_at, coalesce(ended_at, known_to_at)]) AS turned_at
    FROM ledger.holding
    WHERE started_at < make_timestamp(CAST($to_us AS BIGINT)) AND coalesce(ended_at, known_to_at) > make_timestamp(CAST($from_us AS BIGINT))
),

-- Hours within which a holder comes or goes.
turn AS (
    SELECT DISTINCT cluster, device_uuid, date_trunc('hour', turned_at) AS hour_at
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
    hour.* EXCLUDE (hour_at, minutes_mask, is_even, largest_mib), epoch_us(hour.hour_at) AS hour_us, hour.hour_at,
    hour.largest_mib[1] AS peak_mib, coalesce(hour.largest_mib[2], hour.largest_mib[1]) AS second_mib
FROM hour
JOIN (
    SELECT cluster, device_uuid
    FROM hour
    GROUP BY cluster, device_uuid
    HAVING bool_and(is_even AND samples_count = bit_count(minutes_mask))
) AS even ON even.cluster = hour.cluster AND even.device_uuid = hour.device_uuid
LEFT JOIN turn ON turn.cluster = hour.cluster AND turn.device_uuid = hour.device_uuid AND turn.hour_at = hour.hour_at
WHERE turn.cluster IS NULL AND (SELECT grain_us FROM dim.parameter) = 3600000000
