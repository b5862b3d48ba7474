-- What each sample of a card (or of one of its GPU instances) stands for: [from_us, to_us), empty for an instant that stands alone.
-- A sample stands for its own interval, else until the next one where its source declares how far apart rounds may lie; never beyond the next
-- sample of the same unit, and an interval counts for an hour at most. Several rows of one unit and instant are one sample: the larger figures, none where they contradict each other.
-- A figure beyond its physical limit is not known: memory above the card's total, a ratio above 1.05 (between 1 and 1.05 it is 1). Profiling counters that
-- read 0 while 203 is above a half are invalid. Ratios are of the card (share_ppm of it is the unit): those of an instance whose share is not known are not.
-- What is not odd is one row an instant, and stands for its minute (dim.sample_rest); only the others are grouped and set in order.
WITH
figured AS (
    SELECT
        cluster, device_uuid, gi, occurred_at, is_summed, is_odd, interval_us, source,
        CASE WHEN memory_used_mib BETWEEN 0 AND coalesce(memory_total_mib, 100000000) THEN memory_used_mib END AS memory_mib,
        ratio_ppm(util_gpu_ratio) AS util_ppm, ratio_ppm(gr_active_ratio) AS engine_ppm, ratio_ppm(sm_active_ratio) AS sm_ppm,
        ratio_ppm(dram_active_ratio) AS dram_ppm
    FROM dim.sample_rest
),

odd_sample AS (
    SELECT
        cluster, device_uuid, gi, occurred_at, max(interval_us) AS interval_us, max(source) AS source,
        agreed_mib(min(memory_mib), max(memory_mib)) AS memory_mib, agreed_ppm(min(util_ppm), max(util_ppm)) AS util_ppm,
        agreed_ppm(min(engine_ppm), max(engine_ppm)) AS engine_ppm, agreed_ppm(min(sm_ppm), max(sm_ppm)) AS sm_ppm,
        agreed_ppm(min(dram_ppm), max(dram_ppm)) AS dram_ppm
    FROM figured
    WHERE is_odd
    GROUP BY cluster, device_uuid, gi, occurred_at
),

home AS (
    SELECT cluster, device_uuid, max(node) AS node
    FROM dim.device
    GROUP BY cluster, device_uuid
),

timed AS (
    SELECT
        sample.*, epoch_us(sample.occurred_at) AS from_us,
        greatest(coalesce(of_node.gap_max_us, 0), coalesce(of_all.gap_max_us, 0)) AS gap_max_us,
        epoch_us(
            lead(sample.occurred_at) OVER (
                PARTITION BY sample.cluster, sample.device_uuid, sample.gi ORDER BY sample.occurred_at
            )
        ) AS next_us
    FROM odd_sample AS sample
    LEFT JOIN home ON home.cluster = sample.cluster AND home.device_uuid = sample.device_uuid
    LEFT JOIN dim.usage_gap AS of_node
        ON of_node.cluster = sample.cluster AND of_node.source = sample.source AND of_node.scope = 'node/' || home.node
    LEFT JOIN dim.usage_gap AS of_all
        ON of_all.cluster = sample.cluster AND of_all.source = sample.source AND of_all.scope = 'cluster'
),

stood AS (
    SELECT
        cluster, device_uuid, gi, FALSE AS is_summed, memory_mib, util_ppm, engine_ppm, sm_ppm, dram_ppm, from_us,
        CASE
            WHEN interval_us > 0 THEN least(from_us + least(interval_us, 3600000000), coalesce(next_us, 4611686018427387904))
            WHEN next_us - from_us <= gap_max_us THEN next_us
            ELSE from_us
        END AS to_us
    FROM timed
    UNION ALL
    SELECT
        cluster, device_uuid, gi, is_summed, memory_mib, util_ppm, engine_ppm, sm_ppm, dram_ppm, epoch_us(occurred_at), epoch_us(occurred_at) + 60000000
    FROM figured
    WHERE NOT is_odd
),

shared AS (
    SELECT
        stood.*, coalesce(stood.util_ppm > 500000 AND stood.engine_ppm = 0, FALSE) AS suspect,
        CASE WHEN stood.gi IS NULL THEN 1000000 ELSE instance.share_ppm END AS share_ppm
    FROM stood
    LEFT JOIN dim.usage_instance AS instance
        ON instance.cluster = stood.cluster AND instance.device_uuid = stood.device_uuid AND instance.gi = stood.gi
        AND stood.from_us >= instance.from_us AND stood.from_us < instance.to_us
)

SELECT
    cluster, device_uuid, gi, is_summed, memory_mib, share_ppm,
    of_card_ppm(util_ppm, share_ppm) AS util_ppm,
    CASE WHEN NOT suspect THEN of_card_ppm(engine_ppm, share_ppm) END AS engine_ppm,
    CASE WHEN NOT suspect THEN of_card_ppm(sm_ppm, share_ppm) END AS sm_ppm,
    CASE WHEN NOT suspect THEN of_card_ppm(dram_ppm, share_ppm) END AS dram_ppm,
    CASE WHEN NOT suspect THEN of_card_ppm(used_share_ppm(sm_ppm, dram_ppm), share_ppm) END AS used_ppm,
    from_us, to_us
FROM shared
