-- Units and hours whose samples are odd (sample_odd): what each sample stands for, [from_us, to_us) as in usage_stretch, with
-- the state of its minute, judged by the means of what the minute's samples know; cut by hours, with the minutes that it touches as bits.
WITH
sample AS (
    SELECT
        sample.cluster, sample.device_uuid, sample.gi, sample.occurred_at,
        max(sample.interval_us) AS interval_us, max(sample.source) AS source,
        agreed_ratio(min(measured_ratio(sample.util_gpu_ratio)), max(measured_ratio(sample.util_gpu_ratio))) AS util,
        agreed_ratio(min(measured_ratio(sample.gr_active_ratio)), max(measured_ratio(sample.gr_active_ratio))) AS engine,
        agreed_ratio(min(measured_ratio(sample.sm_active_ratio)), max(measured_ratio(sample.sm_active_ratio))) AS sm,
        agreed_ratio(min(measured_ratio(sample.dram_active_ratio)), max(measured_ratio(sample.dram_active_ratio))) AS dram,
        max(measured_ratio(sample.sm_occupancy_ratio)) AS occupancy,
        bit_or(sample.throttle_reasons) AS throttle_reasons,
        max(sample.pcie_tx_bytes_per_second) AS pcie_tx, max(sample.pcie_rx_bytes_per_second) AS pcie_rx,
        max(sample.nvlink_tx_bytes_per_second) AS nvlink_tx, max(sample.nvlink_rx_bytes_per_second) AS nvlink_rx
    FROM dim.sample_rest AS sample
    WHERE sample.is_odd
    GROUP BY sample.cluster, sample.device_uuid, sample.gi, sample.occurred_at
),

trusted AS (
    SELECT
        * EXCLUDE (occurred_at, engine, sm, dram), epoch_us(occurred_at) AS from_us,
        grain_start_us(epoch_us(occurred_at), 60000000) AS minute_us,
        CASE WHEN NOT suspect THEN engine END AS engine,
        CASE WHEN NOT suspect THEN sm END AS sm,
        CASE WHEN NOT suspect THEN dram END AS dram
    FROM (SELECT *, coalesce(util > 0.5 AND engine = 0, FALSE) AS suspect FROM sample) AS marked
),

minute AS (
    SELECT
        cluster, device_uuid, gi, minute_us, coalesce(avg(engine), avg(util)) AS engine,
        avg(engine) IS NULL AND avg(util) IS NOT NULL AS is_fallback,
        avg(sm) AS sm, avg(dram) AS dram, avg(occupancy) AS occupancy, bit_or(throttle_reasons) AS throttle_reasons,
        avg(pcie_tx) AS pcie_tx, avg(pcie_rx) AS pcie_rx, avg(nvlink_tx) AS nvlink_tx, avg(nvlink_rx) AS nvlink_rx
    FROM trusted
    GROUP BY cluster, device_uuid, gi, minute_us
),

judged AS (
    SELECT
        minute.*, threshold.copy_bytes_per_second, threshold.collective_bytes_per_second, threshold.occupancy_ratio,
        gpu_state_no(
            minute.engine, minute.sm, minute.dram, threshold.idle_ratio, threshold.low_ratio, threshold.bound_ratio, threshold.quiet_ratio
        ) AS state_no
    FROM minute
    CROSS JOIN dim.state_threshold AS threshold
),

coded AS (
    SELECT
        judged.cluster, judged.device_uuid, judged.gi, judged.minute_us,
        CASE
            WHEN judged.state_no = 7 AND (hang.minutes_mask >> (judged.minute_us - hang.hour_us) // 60000000) & 1 = 1 THEN 1
            ELSE judged.state_no + 32 * sample_cause_no(
                judged.state_no, judged.throttle_reasons, judged.pcie_tx, judged.pcie_rx, judged.nvlink_tx, judged.nvlink_rx,
                judged.occupancy, judged.copy_bytes_per_second, judged.collective_bytes_per_second, judged.occupancy_ratio
            )
        END
        + CASE WHEN judged.is_fallback THEN 256 ELSE 0 END AS code
    FROM judged
    LEFT JOIN dim.gpu_state_hang AS hang
        ON hang.cluster = judged.cluster AND hang.device_uuid = judged.device_uuid AND hang.gi IS NOT DISTINCT FROM judged.gi
        AND hang.hour_us = grain_start_us(judged.minute_us, 3600000000)
),

home AS (
    SELECT cluster, device_uuid, max(node) AS node
    FROM dim.device
    GROUP BY cluster, device_uuid
),

timed AS (
    SELECT
        trusted.cluster, trusted.device_uuid, trusted.gi, trusted.minute_us, trusted.from_us, trusted.interval_us,
        greatest(coalesce(of_node.gap_max_us, 0), coalesce(of_all.gap_max_us, 0)) AS gap_max_us,
        lead(trusted.from_us) OVER (
            PARTITION BY trusted.cluster, trusted.device_uuid, trusted.gi ORDER BY trusted.from_us
        ) AS next_us
    FROM trusted
    LEFT JOIN home ON home.cluster = trusted.cluster AND home.device_uuid = trusted.device_uuid
    LEFT JOIN dim.usage_gap AS of_node
        ON of_node.cluster = trusted.cluster AND of_node.source = trusted.source AND of_node.scope = 'node/' || home.node
    LEFT JOIN dim.usage_gap AS of_all
        ON of_all.cluster = trusted.cluster AND of_all.source = trusted.source AND of_all.scope = 'cluster'
),

stretch AS (
    SELECT
        cluster, device_uuid, gi, minute_us, from_us,
        CASE
            WHEN interval_us > 0 THEN least(from_us + least(interval_us, 3600000000), coalesce(next_us, 4611686018427387904))
            WHEN next_us - from_us <= gap_max_us THEN next_us
            ELSE from_us
        END AS to_us
    FROM timed
),

cut AS (
    SELECT *, unnest(range(grain_start_us(from_us, 3600000000), to_us, 3600000000)) AS hour_us
    FROM stretch
    WHERE to_us > from_us
)

SELECT
    cut.cluster, cut.device_uuid, cut.gi, cut.hour_us, coded.code,
    greatest(cut.from_us, cut.hour_us) AS from_us, least(cut.to_us, cut.hour_us + 3600000000) AS to_us,
    minutes_between(
        (greatest(cut.from_us, cut.hour_us) - cut.hour_us) // 60000000,
        (least(cut.to_us, cut.hour_us + 3600000000) - 1 - cut.hour_us) // 60000000
    ) AS minutes_mask
FROM cut
JOIN coded
    ON coded.cluster = cut.cluster AND coded.device_uuid = cut.device_uuid AND coded.gi IS NOT DISTINCT FROM cut.gi
    AND coded.minute_us = cut.minute_us
