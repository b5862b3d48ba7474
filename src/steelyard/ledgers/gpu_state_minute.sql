-- The samples of a window, each judged by itself, as minutes of their hour, one bit each: one pass and one grouping. Where the samples of a unit are one a
-- minute, each of its whole minute (is_aligned, and as many samples as minutes), that is all there is to it; the others are looked at again in
-- gpu_state_odd. code: state + 32 x cause + 256 where 203 stands in for 1001 (definitions.gpu_state).
WITH
sample AS (
    SELECT
        cluster, device_uuid, gi, epoch_us(occurred_at) AS instant_us, coalesce(interval_us = 60000000, FALSE) AS is_minute,
        CASE WHEN util_gpu_ratio BETWEEN 0 AND 1.05 THEN util_gpu_ratio END AS util,
        CASE WHEN gr_active_ratio BETWEEN 0 AND 1.05 THEN gr_active_ratio END AS engine,
        CASE WHEN sm_active_ratio BETWEEN 0 AND 1.05 THEN sm_active_ratio END AS sm,
        CASE WHEN dram_active_ratio BETWEEN 0 AND 1.05 THEN dram_active_ratio END AS dram,
        throttle_reasons, pcie_tx_bytes_per_second, pcie_rx_bytes_per_second, nvlink_tx_bytes_per_second, nvlink_rx_bytes_per_second,
        measured_ratio(sm_occupancy_ratio) AS occupancy
    FROM fact.device_sample
    WHERE occurred_at BETWEEN make_timestamp(CAST($read_from_us AS BIGINT)) AND make_timestamp(CAST($read_to_us AS BIGINT))
),

trusted AS (
    SELECT
        * EXCLUDE (engine, sm, dram),
        coalesce(CASE WHEN NOT suspect THEN engine END, util) AS engine,
        (suspect OR engine IS NULL) AND util IS NOT NULL AS is_fallback,
        CASE WHEN NOT suspect THEN sm END AS sm,
        CASE WHEN NOT suspect THEN dram END AS dram
    FROM (SELECT *, coalesce(util > 0.5 AND engine = 0, FALSE) AS suspect FROM sample) AS marked
),

judged AS (
    SELECT
        trusted.*, threshold.copy_bytes_per_second, threshold.collective_bytes_per_second, threshold.occupancy_ratio,
        gpu_state_no(
            trusted.engine, trusted.sm, trusted.dram, threshold.idle_ratio, threshold.low_ratio, threshold.bound_ratio,
            threshold.quiet_ratio
        ) AS state_no
    FROM trusted
    CROSS JOIN dim.state_threshold AS threshold
),

-- Hour, state and cause in one number, so that there is one to group by.
coded AS (
    SELECT
        cluster, device_uuid, gi, CAST(1 AS BIGINT) << (instant_us // 60000000 % 60) AS minute_bit,
        is_minute AND instant_us % 60000000 = 0 AS is_aligned,
        instant_us // 3600000000 * 512 + state_no
        + 32 * sample_cause_no(
            state_no, throttle_reasons, pcie_tx_bytes_per_second, pcie_rx_bytes_per_second, nvlink_tx_bytes_per_second,
            nvlink_rx_bytes_per_second, occupancy, copy_bytes_per_second, collective_bytes_per_second, occupancy_ratio
        )
        + CASE WHEN is_fallback THEN 256 ELSE 0 END AS hour_code
    FROM judged
)

SELECT
    cluster, device_uuid, gi, (hour_code >> 9) * 3600000000 AS hour_us, CAST(hour_code & 511 AS SMALLINT) AS code, count(*) AS samples_count,
    bit_or(minute_bit) AS minutes_mask, bool_and(is_aligned) AS is_aligned
FROM coded
GROUP BY cluster, device_uuid, gi, hour_code
