-- Figures of one unit and instant that contradict each other (agreed_ppm, agreed_mib), and who tells them. Only hours that are odd have two samples of one
-- instant (sample_odd). least, most: MiB of memory, millionths of a ratio. told_by: sources and, where files were imported, their names.
WITH
instant AS (
    SELECT
        cluster, device_uuid, gi, occurred_at, min(memory_mib) AS least_mib, max(memory_mib) AS most_mib, min(util_ppm) AS least_util, max(util_ppm) AS most_util,
        min(engine_ppm) AS least_engine, max(engine_ppm) AS most_engine, min(sm_ppm) AS least_sm, max(sm_ppm) AS most_sm,
        min(dram_ppm) AS least_dram, max(dram_ppm) AS most_dram
    FROM (
        SELECT
            cluster, device_uuid, gi, occurred_at,
            CASE WHEN memory_used_mib BETWEEN 0 AND coalesce(memory_total_mib, 100000000) THEN memory_used_mib END AS memory_mib,
            ratio_ppm(util_gpu_ratio) AS util_ppm, ratio_ppm(gr_active_ratio) AS engine_ppm, ratio_ppm(sm_active_ratio) AS sm_ppm,
            ratio_ppm(dram_active_ratio) AS dram_ppm
        FROM dim.sample_rest
        WHERE is_odd AND occurred_at >= make_timestamp(CAST($from_us AS BIGINT)) AND occurred_at < make_timestamp(CAST($to_us AS BIGINT))
    ) AS figured
    GROUP BY cluster, device_uuid, gi, occurred_at
    HAVING count(*) > 1
),

figure AS (
    SELECT cluster, device_uuid, gi, occurred_at, 'memory_used_mib' AS figure, least_mib AS least, most_mib AS most
    FROM instant
    WHERE most_mib IS NOT NULL AND agreed_mib(least_mib, most_mib) IS NULL
    UNION ALL
    SELECT cluster, device_uuid, gi, occurred_at, 'util_gpu_ratio', least_util, most_util
    FROM instant
    WHERE most_util IS NOT NULL AND agreed_ppm(least_util, most_util) IS NULL
    UNION ALL
    SELECT cluster, device_uuid, gi, occurred_at, 'gr_active_ratio', least_engine, most_engine
    FROM instant
    WHERE most_engine IS NOT NULL AND agreed_ppm(least_engine, most_engine) IS NULL
    UNION ALL
    SELECT cluster, device_uuid, gi, occurred_at, 'sm_active_ratio', least_sm, most_sm
    FROM instant
    WHERE most_sm IS NOT NULL AND agreed_ppm(least_sm, most_sm) IS NULL
    UNION ALL
    SELECT cluster, device_uuid, gi, occurred_at, 'dram_active_ratio', least_dram, most_dram
    FROM instant
    WHERE most_dram IS NOT NULL AND agreed_ppm(least_dram, most_dram) IS NULL
),

-- By equal instants, so that the engine finds the few blocks that hold them.
teller AS (
    SELECT
        sample.cluster, sample.device_uuid, sample.gi, sample.occurred_at,
        string_agg(DISTINCT sample.source || coalesce(' (' || file.path || ')', ''), ', ' ORDER BY sample.source || coalesce(' (' || file.path || ')', ''))
            AS told_by
    FROM fact.device_sample AS sample
    JOIN (SELECT DISTINCT cluster, device_uuid, gi, occurred_at FROM figure) AS told
        ON told.occurred_at = sample.occurred_at AND told.device_uuid = sample.device_uuid AND told.cluster = sample.cluster
        AND told.gi IS NOT DISTINCT FROM sample.gi
    LEFT JOIN (SELECT sha256, max(path) AS path FROM fact.import_file GROUP BY sha256) AS file ON file.sha256 = sample.import_id
    GROUP BY sample.cluster, sample.device_uuid, sample.gi, sample.occurred_at
)

SELECT figure.cluster, figure.device_uuid, figure.gi, figure.occurred_at, figure.figure, figure.least, figure.most, teller.told_by
FROM figure
JOIN teller
    ON teller.cluster = figure.cluster AND teller.device_uuid = figure.device_uuid AND teller.gi IS NOT DISTINCT FROM figure.gi
    AND teller.occurred_at = figure.occurred_at
