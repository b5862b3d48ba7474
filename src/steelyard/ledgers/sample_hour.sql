-- The samples of a window, each judged by itself, summed by unit, hour and code: the one pass over the window's samples that `usage` and `gpu_state`
-- share. code: state + 32 x cause + 256 where 203 stands in for 1001 (definitions.gpu_state). Minutes are bits of their hour. Ratios are summed in
-- millionths (definitions.used_share). is_suspect: counters that read 0 while 203 is above a half, in millionths; what they add up to is none. The trick
-- to know: hour, code and is_suspect are one number to group by, and what is NULL for all of a group is decided after the grouping, once for a group.
WITH
sample AS (
    SELECT
        cluster, device_uuid, gi, epoch_us(occurred_at) AS instant_us, coalesce(interval_us = 60000000, FALSE) AS is_minute,
        CASE WHEN memory_used_mib BETWEEN 0 AND coalesce(memory_total_mib, 100000000) THEN memory_used_mib END AS memory_mib,
        measured_ratio(util_gpu_ratio) AS util,
        measured_ratio(gr_active_ratio) AS engine,
        measured_ratio(sm_active_ratio) AS sm,
        measured_ratio(dram_active_ratio) AS dram,
        throttle_reasons, pcie_tx_bytes_per_second, pcie_rx_bytes_per_second, nvlink_tx_bytes_per_second, nvlink_rx_bytes_per_second,
        measured_ratio(sm_occupancy_ratio) AS occupancy
    FROM fact.device_sample
    WHERE occurred_at BETWEEN make_timestamp(CAST($read_from_us AS BIGINT)) AND make_timestamp(CAST($read_to_us AS BIGINT))
),

figured AS (
    SELECT
        *, coalesce(util > 0.5 AND engine = 0, FALSE) AS is_blank,
        CAST(round(util * 1000000) AS INTEGER) AS util_ppm, CAST(round(engine * 1000000) AS INTEGER) AS engine_ppm,
        CAST(round(sm * 1000000) AS INTEGER) AS sm_ppm, CAST(round(dram * 1000000) AS INTEGER) AS dram_ppm
    FROM sample
),

judged AS (
    SELECT
        figured.*, threshold.copy_bytes_per_second, threshold.collective_bytes_per_second, threshold.occupancy_ratio,
        CASE
            WHEN is_blank
                THEN gpu_state_no(
                    util, CAST(NULL AS DOUBLE), CAST(NULL AS DOUBLE), threshold.idle_ratio, threshold.low_ratio, threshold.bound_ratio,
                    threshold.quiet_ratio
                )
            ELSE gpu_state_no(
                coalesce(engine, util), sm, dram, threshold.idle_ratio, threshold.low_ratio, threshold.bound_ratio, threshold.quiet_ratio
            )
        END AS state_no
    FROM figured
    CROSS JOIN dim.state_threshold AS threshold
),

coded AS (
    SELECT
        cluster, device_uuid, gi, CAST(1 AS BIGINT) << (instant_us // 60000000 % 60) AS minute_bit,
        is_minute AND instant_us % 60000000 = 0 AS is_aligned, memory_mib, util_ppm, engine_ppm, sm_ppm, dram_ppm,
        used_share_ppm(sm_ppm, dram_ppm) AS used_ppm,
        instant_us // 3600000000 * 1024 + state_no
        + 32 * sample_cause_no(
            state_no, throttle_reasons, pcie_tx_bytes_per_second, pcie_rx_bytes_per_second, nvlink_tx_bytes_per_second,
            nvlink_rx_bytes_per_second, occupancy, copy_bytes_per_second, collective_bytes_per_second, occupancy_ratio
        )
        + CASE WHEN is_blank OR (engine IS NULL AND util IS NOT NULL) THEN 256 ELSE 0 END
        + CASE WHEN engine_ppm = 0 AND util_ppm > 500000 THEN 512 ELSE 0 END AS hour_code
    FROM judged
),

summed AS (
    SELECT
        cluster, device_uuid, gi, hour_code, count(*) AS samples_count, bit_or(minute_bit) AS minutes_mask, bool_and(is_aligned) AS is_aligned,
        count(memory_mib) AS memory_count, sum(memory_mib) AS memory_sum_mib, max(memory_mib, 2) AS largest_mib,
        count(util_ppm) AS util_count, sum(util_ppm) AS util_sum_ppm, count(engine_ppm) AS engine_count, sum(engine_ppm) AS engine_sum_ppm,
        count(sm_ppm) AS sm_count, sum(sm_ppm) AS sm_sum_ppm, count(dram_ppm) AS dram_count, sum(dram_ppm) AS dram_sum_ppm,
        count(used_ppm) AS used_count, sum(used_ppm) AS used_sum_ppm
    FROM coded
    GROUP BY cluster, device_uuid, gi, hour_code
)

SELECT
    cluster, device_uuid, gi, (hour_code >> 10) * 3600000000 AS hour_us, CAST(hour_code & 511 AS SMALLINT) AS code,
    hour_code & 512 <> 0 AS is_suspect, samples_count, minutes_mask, is_aligned,
    memory_count, CAST(memory_sum_mib AS BIGINT) AS memory_sum_mib, largest_mib[1] AS peak_mib, largest_mib[2] AS second_mib,
    util_count, CAST(util_sum_ppm AS BIGINT) AS util_sum_ppm,
    CASE WHEN hour_code & 512 = 0 THEN engine_count ELSE 0 END AS engine_count,
    CASE WHEN hour_code & 512 = 0 THEN CAST(engine_sum_ppm AS BIGINT) END AS engine_sum_ppm,
    CASE WHEN hour_code & 512 = 0 THEN sm_count ELSE 0 END AS sm_count,
    CASE WHEN hour_code & 512 = 0 THEN CAST(sm_sum_ppm AS BIGINT) END AS sm_sum_ppm,
    CASE WHEN hour_code & 512 = 0 THEN dram_count ELSE 0 END AS dram_count,
    CASE WHEN hour_code & 512 = 0 THEN CAST(dram_sum_ppm AS BIGINT) END AS dram_sum_ppm,
    CASE WHEN hour_code & 512 = 0 THEN used_count ELSE 0 END AS used_count,
    CASE WHEN hour_code & 512 = 0 THEN CAST(used_sum_ppm AS BIGINT) END AS used_sum_ppm
FROM summed
