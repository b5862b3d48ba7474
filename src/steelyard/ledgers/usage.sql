-- What was used of each card, by whom, per grain, over observed time only (see usage.py). Memory from device and process samples; of the card itself
-- max(1002, 1005), each of the two apart, and 1001 and 203 as upper bounds, every basis in columns of its own. Paths, best first: `exclusive` (the card's one holder), `mig` (the one holder of a GPU instance), `process`
-- (processes proven to be a pod's); `device` is the card itself, `residual` the card less its holders.
-- An instant that stands for no time counts in peak, p99 and samples_count; amounts over no time are not known.
WITH
parameter AS (
    SELECT grain_us FROM dim.parameter
),

-- A stretch cut into grains; the sample itself (its instant) belongs to the first. Most lie within one and need not be cut.
placed AS (
    SELECT stretch.*, parameter.grain_us, grain_start_us(stretch.from_us, parameter.grain_us) AS first_grain_us_at
    FROM dim.usage_stretch AS stretch
    CROSS JOIN parameter
),

device_part AS (
    SELECT
        cluster, device_uuid, gi, is_summed, memory_mib, util_ppm, engine_ppm, sm_ppm, dram_ppm, used_ppm, share_ppm,
        first_grain_us_at AS grain_us_at, TRUE AS first_part, from_us AS instant_us, from_us AS lo, to_us AS hi
    FROM placed
    WHERE to_us <= first_grain_us_at + grain_us
    UNION ALL
    SELECT
        cluster, device_uuid, gi, is_summed, memory_mib, util_ppm, engine_ppm, sm_ppm, dram_ppm, used_ppm, share_ppm,
        grain_us_at, from_us >= grain_us_at, from_us, greatest(from_us, grain_us_at), least(to_us, grain_us_at + grain_us)
    FROM (
        SELECT *, unnest(range(first_grain_us_at, to_us, grain_us)) AS grain_us_at
        FROM placed
        WHERE to_us > first_grain_us_at + grain_us
    ) AS cut
),

holder_part AS (
    SELECT
        cluster, device_uuid, gi, pod_uid, grain_us_at,
        greatest(from_us, grain_us_at) AS lo, least(to_us, grain_us_at + grain_us) AS hi
    FROM (
        SELECT
            holder.*, parameter.grain_us,
            unnest(range(grain_start_us(holder.from_us, parameter.grain_us), holder.to_us, parameter.grain_us)) AS grain_us_at
        FROM dim.usage_holder AS holder
        CROSS JOIN parameter
    ) AS cut
),

process_part AS (
    SELECT
        cluster, device_uuid, gi, pod_uid, memory_mib, grain_us_at, from_us >= grain_us_at AS first_part, from_us AS instant_us,
        greatest(from_us, grain_us_at) AS lo, least(to_us, grain_us_at + grain_us) AS hi
    FROM (
        SELECT
            process.*, parameter.grain_us,
            unnest(
                range(grain_start_us(process.from_us, parameter.grain_us), greatest(process.to_us, process.from_us + 1), parameter.grain_us)
            ) AS grain_us_at
        FROM dim.usage_process AS process
        CROSS JOIN parameter
    ) AS cut
),

-- Where the card as a whole told a figure in a grain, its instances do not tell it beside it.
board AS (
    SELECT
        cluster, device_uuid, grain_us_at,
        count(memory_mib) > 0 AS has_memory, count(util_ppm) > 0 AS has_util, count(engine_ppm) > 0 AS has_engine,
        count(sm_ppm) > 0 AS has_sm, count(dram_ppm) > 0 AS has_dram, count(used_ppm) > 0 AS has_used
    FROM device_part
    WHERE gi IS NULL AND NOT is_summed
    GROUP BY cluster, device_uuid, grain_us_at
),

card_part AS (
    SELECT
        part.cluster, part.device_uuid, part.gi, part.grain_us_at, part.lo, part.hi, part.first_part, part.share_ppm,
        part.gi IS NULL OR board.cluster IS NULL AS alone,
        CASE WHEN part.gi IS NULL OR board.has_memory IS NOT TRUE THEN part.memory_mib END AS memory_mib,
        CASE WHEN part.gi IS NULL OR board.has_util IS NOT TRUE THEN part.util_ppm END AS util_ppm,
        CASE WHEN part.gi IS NULL OR board.has_engine IS NOT TRUE THEN part.engine_ppm END AS engine_ppm,
        CASE WHEN part.gi IS NULL OR board.has_sm IS NOT TRUE THEN part.sm_ppm END AS sm_ppm,
        CASE WHEN part.gi IS NULL OR board.has_dram IS NOT TRUE THEN part.dram_ppm END AS dram_ppm,
        CASE WHEN part.gi IS NULL OR board.has_used IS NOT TRUE THEN part.used_ppm END AS used_ppm
    FROM device_part AS part
    LEFT JOIN board
        ON board.cluster = part.cluster AND board.device_uuid = part.device_uuid AND board.grain_us_at = part.grain_us_at
    WHERE NOT part.is_summed
),

-- Every part with the time it counts and whether its instant counts: (1) the device itself, (2) its one holder, (3) proven processes.
weighed AS (
    SELECT
        part.cluster, part.device_uuid, part.gi, part.grain_us_at, CAST(NULL AS VARCHAR) AS pod_uid, 'device' AS path,
        part.memory_mib, part.util_ppm, part.engine_ppm, part.sm_ppm, part.dram_ppm, part.used_ppm, part.share_ppm,
        part.hi - part.lo AS length_us, part.first_part AS sampled
    FROM card_part AS part
    WHERE part.alone OR part.memory_mib IS NOT NULL OR part.util_ppm IS NOT NULL OR part.engine_ppm IS NOT NULL OR part.sm_ppm IS NOT NULL
        OR part.dram_ppm IS NOT NULL OR part.used_ppm IS NOT NULL
    UNION ALL
    SELECT
        part.cluster, part.device_uuid, part.gi, part.grain_us_at, holder.pod_uid,
        CASE WHEN part.gi IS NULL THEN 'exclusive' ELSE 'mig' END,
        part.memory_mib, part.util_ppm, part.engine_ppm, part.sm_ppm, part.dram_ppm, part.used_ppm, part.share_ppm,
        greatest(0, least(part.hi, holder.hi) - greatest(part.lo, holder.lo)),
        part.first_part AND part.instant_us >= holder.lo AND part.instant_us < holder.hi
    FROM device_part AS part
    JOIN holder_part AS holder
        ON holder.cluster = part.cluster AND holder.device_uuid = part.device_uuid AND holder.grain_us_at = part.grain_us_at
        AND holder.gi IS NOT DISTINCT FROM part.gi
    WHERE (part.lo < holder.hi AND part.hi > holder.lo) OR (part.instant_us >= holder.lo AND part.instant_us < holder.hi)
    UNION ALL
    SELECT
        part.cluster, part.device_uuid, NULL, part.grain_us_at, part.pod_uid, 'process',
        part.memory_mib, NULL, NULL, NULL, NULL, NULL, NULL, CAST(part.hi - part.lo - part.attributed_us AS BIGINT), part.first_part AND NOT part.attributed_instant
    FROM (
        SELECT
            process.cluster, process.device_uuid, process.gi, process.pod_uid, process.memory_mib, process.grain_us_at, process.instant_us,
            process.first_part, process.lo, process.hi,
            sum(
                CASE WHEN holder.lo IS NOT NULL THEN greatest(0, least(process.hi, holder.hi) - greatest(process.lo, holder.lo)) ELSE 0 END
            ) AS attributed_us,
            coalesce(bool_or(process.instant_us >= holder.lo AND process.instant_us < holder.hi), FALSE) AS attributed_instant
        FROM process_part AS process
        LEFT JOIN holder_part AS holder
            ON holder.cluster = process.cluster AND holder.device_uuid = process.device_uuid
            AND holder.grain_us_at = process.grain_us_at
            AND (holder.gi IS NULL OR holder.gi = process.gi)
        GROUP BY
            process.cluster, process.device_uuid, process.gi, process.pod_uid, process.memory_mib, process.grain_us_at,
            process.instant_us, process.first_part, process.lo, process.hi
    ) AS part
),

-- A calm hour is the card's own, and that of its one holder, where that has it from its beginning to its end.
calm_hour AS (
    SELECT hour.*, holder.pod_uid
    FROM dim.usage_calm AS hour
    LEFT JOIN dim.usage_holder AS holder
        ON NOT hour.is_turned AND holder.cluster = hour.cluster AND holder.device_uuid = hour.device_uuid AND holder.gi IS NULL
        AND holder.from_us < hour.hour_us + 3600000000 AND holder.to_us > hour.hour_us
),

calm AS (
    SELECT * EXCLUDE (pod_uid), CAST(NULL AS VARCHAR) AS pod_uid, 'device' AS path, pod_uid IS NOT NULL AS is_explained
    FROM calm_hour
    UNION ALL
    SELECT * EXCLUDE (pod_uid), pod_uid, 'exclusive', TRUE
    FROM calm_hour
    WHERE pod_uid IS NOT NULL
),

-- is_explained: of a calm hour, whether its one holder has all of it; NULL of any other.
summed AS (
    SELECT
        cluster, device_uuid, gi, grain_us_at, pod_uid, path,
        CAST(sum(CASE WHEN memory_mib IS NOT NULL THEN length_us ELSE 0 END) AS BIGINT) AS observed_us,
        CAST(sum(CASE WHEN util_ppm IS NOT NULL THEN length_us ELSE 0 END) AS BIGINT) AS compute_observed_us,
        CAST(sum(length_us * memory_mib) AS BIGINT) AS memory_mib_us,
        sum_of_gpu_time_us(length_us, util_ppm) AS compute_upper_gpu_us,
        CAST(sum(CASE WHEN engine_ppm IS NOT NULL THEN length_us ELSE 0 END) AS BIGINT) AS engine_observed_us,
        sum_of_gpu_time_us(length_us, engine_ppm) AS engine_upper_gpu_us,
        CAST(sum(CASE WHEN sm_ppm IS NOT NULL THEN length_us ELSE 0 END) AS BIGINT) AS sm_observed_us,
        sum_of_gpu_time_us(length_us, sm_ppm) AS sm_gpu_us,
        CAST(sum(CASE WHEN dram_ppm IS NOT NULL THEN length_us ELSE 0 END) AS BIGINT) AS dram_observed_us,
        sum_of_gpu_time_us(length_us, dram_ppm) AS dram_gpu_us,
        CAST(sum(CASE WHEN used_ppm IS NOT NULL THEN length_us ELSE 0 END) AS BIGINT) AS used_observed_us,
        sum_of_gpu_time_us(length_us, used_ppm) AS used_gpu_us,
        sum_of_gpu_time_us(length_us, CASE WHEN used_ppm IS NOT NULL THEN share_ppm END) AS used_of_gpu_us,
        max(CASE WHEN sampled THEN memory_mib END) AS memory_peak_mib,
        CAST(floor(percentile_linear(CASE WHEN sampled THEN memory_mib END, 0.99) + 0.001) AS BIGINT) AS memory_p99_mib,
        CAST(sum(CASE WHEN sampled THEN 1 ELSE 0 END) AS BIGINT) AS samples_count,
        coalesce(max(memory_mib), max(util_ppm), max(engine_ppm), max(sm_ppm), max(dram_ppm)) IS NOT NULL AS says_any,
        CAST(NULL AS BOOLEAN) AS is_explained
    FROM weighed
    WHERE length_us > 0 OR sampled
    GROUP BY cluster, device_uuid, gi, grain_us_at, pod_uid, path
    UNION ALL
    SELECT
        calm.cluster, calm.device_uuid, NULL, calm.hour_us, calm.pod_uid, calm.path,
        calm.memory_count * 60000000, calm.util_count * 60000000, calm.memory_sum_mib * 60000000, calm.util_sum_ppm * 60,
        calm.engine_count * 60000000, calm.engine_sum_ppm * 60, calm.sm_count * 60000000, calm.sm_sum_ppm * 60,
        calm.dram_count * 60000000, calm.dram_sum_ppm * 60, calm.used_count * 60000000, calm.used_sum_ppm * 60, calm.used_count * 60000000,
        calm.peak_mib, calm.second_mib + (calm.peak_mib - calm.second_mib) * (101 - calm.memory_count) // 100, calm.samples_count,
        calm.memory_count + calm.util_count + calm.engine_count + calm.sm_count + calm.dram_count > 0, calm.is_explained
    FROM calm
),

used AS (
    SELECT
        cluster, device_uuid, gi, grain_us_at, pod_uid, path, observed_us, compute_observed_us,
        CASE WHEN observed_us > 0 THEN memory_mib_us END AS memory_mib_us,
        CASE WHEN compute_observed_us > 0 THEN compute_upper_gpu_us END AS compute_upper_gpu_us,
        engine_observed_us, CASE WHEN engine_observed_us > 0 THEN engine_upper_gpu_us END AS engine_upper_gpu_us,
        sm_observed_us, CASE WHEN sm_observed_us > 0 THEN sm_gpu_us END AS sm_gpu_us,
        dram_observed_us, CASE WHEN dram_observed_us > 0 THEN dram_gpu_us END AS dram_gpu_us,
        used_observed_us, CASE WHEN used_observed_us > 0 THEN used_gpu_us END AS used_gpu_us,
        CASE WHEN used_observed_us > 0 THEN used_of_gpu_us END AS used_of_gpu_us,
        memory_peak_mib, memory_p99_mib, samples_count,
        CASE
            WHEN observed_us > 0 OR compute_observed_us > 0 OR engine_observed_us > 0 OR sm_observed_us > 0 OR dram_observed_us > 0 THEN NULL
            WHEN NOT says_any THEN 'the samples name no figure'
            ELSE 'samples are instants: the time between them was not seen'
        END AS unknown_reason,
        is_explained
    FROM summed
),

-- What the holders of a card (gi NULL) and those of each of its instances explain, besides those who have all of a calm hour.
by_holders AS (
    SELECT
        cluster, device_uuid, CAST(NULL AS BIGINT) AS gi, grain_us_at,
        CAST(sum(memory_mib_us) AS BIGINT) AS memory_mib_us,
        CAST(sum(compute_upper_gpu_us) AS BIGINT) AS compute_upper_gpu_us,
        CAST(sum(engine_upper_gpu_us) AS BIGINT) AS engine_upper_gpu_us,
        CAST(sum(sm_gpu_us) AS BIGINT) AS sm_gpu_us,
        CAST(sum(dram_gpu_us) AS BIGINT) AS dram_gpu_us,
        CAST(sum(used_gpu_us) AS BIGINT) AS used_gpu_us
    FROM used
    WHERE path <> 'device' AND is_explained IS NULL
    GROUP BY cluster, device_uuid, grain_us_at
    UNION ALL
    SELECT
        cluster, device_uuid, gi, grain_us_at,
        CAST(sum(memory_mib_us) AS BIGINT) AS memory_mib_us,
        CAST(sum(compute_upper_gpu_us) AS BIGINT) AS compute_upper_gpu_us,
        CAST(sum(engine_upper_gpu_us) AS BIGINT) AS engine_upper_gpu_us,
        CAST(sum(sm_gpu_us) AS BIGINT) AS sm_gpu_us,
        CAST(sum(dram_gpu_us) AS BIGINT) AS dram_gpu_us,
        CAST(sum(used_gpu_us) AS BIGINT) AS used_gpu_us
    FROM used
    WHERE path <> 'device' AND gi IS NOT NULL
    GROUP BY cluster, device_uuid, gi, grain_us_at
),

posting AS (
    SELECT
        cluster, device_uuid, gi, grain_us_at, pod_uid, path, observed_us, compute_observed_us, engine_observed_us, sm_observed_us,
        dram_observed_us, used_observed_us, memory_mib_us, compute_upper_gpu_us, engine_upper_gpu_us, sm_gpu_us, dram_gpu_us, used_gpu_us,
        used_of_gpu_us, memory_peak_mib, memory_p99_mib, samples_count, unknown_reason
    FROM used
    UNION ALL
    SELECT
        used.cluster, used.device_uuid, used.gi, used.grain_us_at, NULL, 'residual', used.observed_us, used.compute_observed_us,
        used.engine_observed_us, used.sm_observed_us, used.dram_observed_us, used.used_observed_us,
        used.memory_mib_us - CASE WHEN used.is_explained THEN used.memory_mib_us ELSE 0 END - coalesce(by_holders.memory_mib_us, 0),
        used.compute_upper_gpu_us - CASE WHEN used.is_explained THEN used.compute_upper_gpu_us ELSE 0 END - coalesce(by_holders.compute_upper_gpu_us, 0),
        used.engine_upper_gpu_us - CASE WHEN used.is_explained THEN used.engine_upper_gpu_us ELSE 0 END - coalesce(by_holders.engine_upper_gpu_us, 0),
        used.sm_gpu_us - CASE WHEN used.is_explained THEN used.sm_gpu_us ELSE 0 END - coalesce(by_holders.sm_gpu_us, 0),
        used.dram_gpu_us - CASE WHEN used.is_explained THEN used.dram_gpu_us ELSE 0 END - coalesce(by_holders.dram_gpu_us, 0),
        used.used_gpu_us - CASE WHEN used.is_explained THEN used.used_gpu_us ELSE 0 END - coalesce(by_holders.used_gpu_us, 0),
        NULL, NULL, NULL, used.samples_count, used.unknown_reason
    FROM used
    LEFT JOIN by_holders
        ON by_holders.cluster = used.cluster AND by_holders.device_uuid = used.device_uuid
        AND by_holders.grain_us_at = used.grain_us_at AND by_holders.gi IS NOT DISTINCT FROM used.gi
    WHERE used.path = 'device'
)

SELECT
    cluster, device_uuid, gi, make_timestamp(grain_us_at) AS grain_at, pod_uid, path,
    CASE
        WHEN used_gpu_us IS NOT NULL THEN 'max_sm_1002_dram_1005'
        WHEN engine_upper_gpu_us IS NOT NULL THEN 'gr_engine_1001_upper_bound'
        WHEN compute_upper_gpu_us IS NOT NULL THEN 'util_gpu_203_upper_bound'
        WHEN memory_mib_us IS NOT NULL OR memory_peak_mib IS NOT NULL THEN 'memory_only'
        ELSE 'unknown'
    END AS used_basis,
    memory_mib_us, memory_peak_mib, memory_p99_mib, compute_upper_gpu_us, engine_upper_gpu_us, sm_gpu_us, dram_gpu_us, used_gpu_us, used_of_gpu_us,
    observed_us, compute_observed_us, engine_observed_us, sm_observed_us, dram_observed_us, used_observed_us, samples_count, unknown_reason
FROM posting
