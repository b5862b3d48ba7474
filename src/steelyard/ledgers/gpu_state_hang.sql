-- The minutes of suspected hangs, one bit each: the signature of a hang, from the start of its first minute to the end of its last for as long as the settings ask. A gap does not
-- end a run, a minute that speaks against it does, and a run may cross any window, so it is found over the whole history; only of units of
-- which a sample has the whole signature by itself. Two-valued rows (hang TRUE or FALSE) count; a minute that cannot tell neither counts nor ends.
WITH
threshold AS (
    SELECT * FROM dim.state_threshold
),

candidate AS (
    SELECT DISTINCT sample.cluster, sample.device_uuid
    FROM fact.device_sample AS sample
    CROSS JOIN threshold
    LEFT JOIN dim.device_power AS model ON model.cluster = sample.cluster AND model.device_uuid = sample.device_uuid
    WHERE coalesce(sample.gr_active_ratio, sample.util_gpu_ratio) >= threshold.hang_busy_ratio
        AND sample.sm_active_ratio < threshold.hang_still_ratio AND sample.dram_active_ratio < threshold.hang_still_ratio
        AND sample.power_watts <= coalesce(sample.power_limit_watts, model.power_limit_watts) * threshold.hang_power_ratio
),

sample AS (
    SELECT
        sample.cluster, sample.device_uuid, sample.gi, epoch_us(sample.occurred_at) AS from_us,
        max(sample.interval_us) AS interval_us,
        agreed_ratio(min(measured_ratio(sample.util_gpu_ratio)), max(measured_ratio(sample.util_gpu_ratio))) AS util,
        agreed_ratio(min(measured_ratio(sample.gr_active_ratio)), max(measured_ratio(sample.gr_active_ratio))) AS engine,
        agreed_ratio(min(measured_ratio(sample.sm_active_ratio)), max(measured_ratio(sample.sm_active_ratio))) AS sm,
        agreed_ratio(min(measured_ratio(sample.dram_active_ratio)), max(measured_ratio(sample.dram_active_ratio))) AS dram,
        max(CASE WHEN sample.power_watts >= 0 THEN sample.power_watts END) AS power_watts,
        max(CASE WHEN sample.power_limit_watts > 0 THEN sample.power_limit_watts END) AS limit_watts
    FROM fact.device_sample AS sample
    JOIN candidate ON candidate.cluster = sample.cluster AND candidate.device_uuid = sample.device_uuid
    WHERE sample.occurred_at BETWEEN (SELECT history_from_at FROM dim.parameter) AND (SELECT horizon_at FROM dim.parameter)
    GROUP BY sample.cluster, sample.device_uuid, sample.gi, sample.occurred_at
),

trusted AS (
    SELECT
        cluster, device_uuid, gi, from_us, interval_us, util, power_watts, limit_watts,
        CASE WHEN NOT suspect THEN engine END AS engine,
        CASE WHEN NOT suspect THEN sm END AS sm,
        CASE WHEN NOT suspect THEN dram END AS dram
    FROM (SELECT *, coalesce(util > 0.5 AND engine = 0, FALSE) AS suspect FROM sample) AS marked
),

minute AS (
    SELECT
        trusted.cluster, trusted.device_uuid, trusted.gi, grain_start_us(trusted.from_us, 60000000) AS minute_us,
        min(trusted.from_us) AS from_us,
        max(trusted.from_us + CASE WHEN trusted.interval_us > 0 THEN least(trusted.interval_us, 3600000000) ELSE 0 END) AS until_us,
        coalesce(avg(trusted.engine), avg(trusted.util)) AS engine,
        avg(trusted.sm) AS sm, avg(trusted.dram) AS dram, avg(trusted.power_watts) AS power_watts,
        coalesce(max(trusted.limit_watts), max(model.power_limit_watts)) AS limit_watts
    FROM trusted
    LEFT JOIN dim.device_power AS model ON model.cluster = trusted.cluster AND model.device_uuid = trusted.device_uuid
    GROUP BY trusted.cluster, trusted.device_uuid, trusted.gi, minute_us
),

judged AS (
    SELECT
        minute.cluster, minute.device_uuid, minute.gi, minute.minute_us, minute.from_us, minute.until_us,
        hang_signature(
            minute.engine, minute.sm, minute.dram, minute.power_watts, minute.limit_watts, threshold.hang_busy_ratio,
            threshold.hang_still_ratio, threshold.hang_power_ratio
        ) AS is_hang
    FROM minute
    CROSS JOIN threshold
),

numbered AS (
    SELECT
        cluster, device_uuid, gi, minute_us, is_hang,
        least(until_us, coalesce(lead(from_us) OVER turns, 4611686018427387904)) AS until_us,
        sum(CASE WHEN is_hang THEN 0 ELSE 1 END) OVER turns AS run_no
    FROM judged
    WHERE is_hang IS NOT NULL
    WINDOW turns AS (PARTITION BY cluster, device_uuid, gi ORDER BY minute_us)
),

run AS (
    SELECT cluster, device_uuid, gi, run_no
    FROM numbered
    WHERE is_hang
    GROUP BY cluster, device_uuid, gi, run_no
    HAVING max(greatest(until_us, minute_us + 60000000)) - min(minute_us) >= (SELECT hang_us FROM threshold)
)

SELECT
    numbered.cluster, numbered.device_uuid, numbered.gi, grain_start_us(numbered.minute_us, 3600000000) AS hour_us,
    bit_or(CAST(1 AS BIGINT) << (numbered.minute_us - grain_start_us(numbered.minute_us, 3600000000)) // 60000000) AS minutes_mask
FROM numbered
JOIN run
    ON run.cluster = numbered.cluster AND run.device_uuid = numbered.device_uuid AND run.gi IS NOT DISTINCT FROM numbered.gi
    AND run.run_no = numbered.run_no
WHERE numbered.is_hang
GROUP BY numbered.cluster, numbered.device_uuid, numbered.gi, hour_us
