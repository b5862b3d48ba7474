-- The samples of a window that must be looked at one by one: those of cards and hours that are not calm (usage_calm), or within which a holder comes or
-- goes (is_summed: what the card itself did is told there). is_odd: not one a minute (sample_odd); any other stands for its own minute. Of a ledger that
-- has no calm hours, all, and all as odd. The trick to know: to read a few of a file's rows costs as much as to read all of them, so both ledgers take
-- theirs from here.
WITH
rest_hour AS (
    SELECT hour.cluster, hour.device_uuid, hour.hour_us, hour.hour_us // 3600000000 AS hour_no, calm.cluster IS NOT NULL AS is_summed
    FROM (SELECT DISTINCT cluster, device_uuid, hour_us FROM dim.sample_hour) AS hour
    LEFT JOIN dim.usage_calm AS calm
        ON calm.cluster = hour.cluster AND calm.device_uuid = hour.device_uuid AND calm.hour_us = hour.hour_us
    WHERE calm.cluster IS NULL OR calm.is_turned
)

SELECT
    sample.cluster, sample.device_uuid, sample.gi, sample.occurred_at, sample.interval_us, sample.source, sample.memory_used_mib,
    sample.memory_total_mib, sample.util_gpu_ratio, sample.gr_active_ratio, sample.sm_active_ratio, sample.dram_active_ratio,
    sample.sm_occupancy_ratio, sample.throttle_reasons, sample.pcie_tx_bytes_per_second, sample.pcie_rx_bytes_per_second,
    sample.nvlink_tx_bytes_per_second, sample.nvlink_rx_bytes_per_second, rest_hour.is_summed, odd.cluster IS NOT NULL AS is_odd
FROM fact.device_sample AS sample
JOIN rest_hour
    ON rest_hour.cluster = sample.cluster AND rest_hour.device_uuid = sample.device_uuid
    AND rest_hour.hour_no = epoch_us(sample.occurred_at) // 3600000000
LEFT JOIN dim.sample_odd AS odd
    ON odd.cluster = sample.cluster AND odd.device_uuid = sample.device_uuid AND odd.gi IS NOT DISTINCT FROM sample.gi
    AND odd.hour_us = rest_hour.hour_us
WHERE sample.occurred_at BETWEEN make_timestamp(CAST($read_from_us AS BIGINT)) AND make_timestamp(CAST($read_to_us AS BIGINT))
