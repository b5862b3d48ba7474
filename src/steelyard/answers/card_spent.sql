-- What no free share can change: whether the bandwidth of a card is spent. See card_spent.py.

-- name: spent_cards
-- Each card and grain of a stretch of which anything tells: spent is `memory_bound`, `saturated` or NULL, is_measured whether the card's own counters were
-- seen, is_at_work whether they say that anything works on it. A holder speaks for the card where it was so for half of its known time, whatever its share is, and so do the card's own means, whoever works on
-- it. An instance speaks for itself alone.
WITH
holder AS (
    SELECT
        cluster, device_uuid, grain_at,
        sum(amount_gpu_us) FILTER (WHERE spent_as(state, cause) = 'memory_bound') AS bound_us,
        sum(amount_gpu_us) FILTER (WHERE spent_as(state, cause) = 'saturated') AS saturated_us,
        sum(amount_gpu_us) FILTER (WHERE state NOT IN ('held_unknown', 'held_starting') AND NOT (state = 'held_unattributed' AND cause IS NULL)) AS known_us
    FROM ledger.gpu_state
    WHERE device_uuid IS NOT NULL AND pod_uid IS NOT NULL AND NOT starts_with(coalesce(basis, ''), 'instance')
        AND grain_at >= make_timestamp($from_us::BIGINT) AND grain_at < make_timestamp($to_us::BIGINT)
    GROUP BY cluster, device_uuid, grain_at, pod_uid, unit_id
),

board AS (
    SELECT
        usage.cluster, usage.device_uuid, usage.grain_at, sum(usage.dram_gpu_us) / sum(usage.dram_observed_us) AS dram_ratio,
        sum(usage.sm_gpu_us) / nullif(sum(usage.sm_observed_us), 0) AS sm_ratio
    FROM ledger.usage AS usage
    WHERE usage.path = 'device' AND usage.gi IS NULL AND usage.grain_at >= make_timestamp($from_us::BIGINT) AND usage.grain_at < make_timestamp($to_us::BIGINT)
        AND (usage.cluster, usage.device_uuid) NOT IN (SELECT (cluster, device_uuid) FROM dim.device WHERE mig_enabled)
    GROUP BY usage.cluster, usage.device_uuid, usage.grain_at
    HAVING sum(usage.dram_observed_us) > 0
),

told AS (
    SELECT
        cluster, device_uuid, grain_at,
        CASE
            WHEN 2 * (coalesce(bound_us, 0) + coalesce(saturated_us, 0)) >= known_us AND coalesce(bound_us, 0) + coalesce(saturated_us, 0) > 0
                THEN CASE WHEN coalesce(saturated_us, 0) > coalesce(bound_us, 0) THEN 'saturated' ELSE 'memory_bound' END
        END AS spent,
        FALSE AS is_measured, FALSE AS is_at_work
    FROM holder
    UNION ALL
    SELECT
        board.cluster, board.device_uuid, board.grain_at,
        CASE
            WHEN board.dram_ratio >= threshold.bound_ratio THEN CASE WHEN board.sm_ratio >= threshold.bound_ratio THEN 'saturated' ELSE 'memory_bound' END
        END,
        TRUE, coalesce(greatest(board.dram_ratio, board.sm_ratio) >= threshold.idle_ratio, FALSE)
    FROM board
    CROSS JOIN dim.state_threshold AS threshold
)

SELECT cluster, device_uuid, epoch_us(grain_at) AS grain_us, max(spent) AS spent, bool_or(is_measured) AS is_measured,
    bool_or(is_at_work) AS is_at_work
FROM told
GROUP BY cluster, device_uuid, grain_at
ORDER BY cluster, device_uuid, grain_at;

-- name: unheld_memory
-- Memory that is in use and that nobody who held the card was granted, at each card's last sample of a stretch: what a process left behind, what one without
-- a grant has, what a holder has beyond its part. granted_mib counts claims in suspense, and those that ended within two minutes before the sample. Below
-- a GiB nothing is told: a driver takes as much by itself. Nothing is told either beside holders of which it is not known what they were granted, or on
-- which card of the node: what is in use may be theirs.
WITH
seen AS (
    SELECT cluster, device_uuid, max(sampled_at) AS sampled_at, arg_max(memory_mib, (sampled_at, memory_mib)) AS memory_mib
    FROM dim.memory_sample
    WHERE sampled_at >= make_timestamp($from_us::BIGINT) AND sampled_at <= make_timestamp($to_us::BIGINT)
    GROUP BY cluster, device_uuid
    HAVING max(memory_mib) >= 1024
),

card AS (
    SELECT seen.*, device.node, device.memory_mib AS whole_mib
    FROM seen
    JOIN dim.device AS device
        ON device.cluster = seen.cluster AND device.device_uuid = seen.device_uuid AND device.valid_from_at <= seen.sampled_at
        AND coalesce(device.valid_to_at >= seen.sampled_at, TRUE)
),

holder AS (
    SELECT
        cluster, place_kind, place_id, memory_mib, share_ppm, started_at, coalesce(ended_at + INTERVAL 2 MINUTE, TIMESTAMP '9999-01-01 00:00:00') AS until_at
    FROM ledger.holding
    WHERE occupancy <> 'reserved'
)

SELECT
    card.cluster, card.device_uuid, epoch_us(card.sampled_at) AS sampled_us, card.memory_mib AS used_mib, card.whole_mib,
    CAST(coalesce(sum(coalesce(holder.memory_mib, card.whole_mib * holder.share_ppm // 1000000)), 0) AS BIGINT) AS granted_mib
FROM card
LEFT JOIN holder
    ON holder.cluster = card.cluster AND holder.place_kind = 'device' AND holder.place_id = card.device_uuid
    AND holder.started_at <= card.sampled_at AND holder.until_at > card.sampled_at
WHERE NOT EXISTS (
        SELECT 1
        FROM holder AS elsewhere
        WHERE elsewhere.cluster = card.cluster AND elsewhere.started_at <= card.sampled_at AND elsewhere.until_at > card.sampled_at
            AND (elsewhere.place_kind = 'cluster' OR (elsewhere.place_kind = 'node' AND elsewhere.place_id = card.node))
    )
GROUP BY card.cluster, card.device_uuid, card.sampled_at, card.memory_mib, card.whole_mib
HAVING count(*) FILTER (WHERE holder.place_id IS NOT NULL AND coalesce(holder.memory_mib, card.whole_mib * holder.share_ppm // 1000000) IS NULL) = 0
    AND card.memory_mib - coalesce(sum(coalesce(holder.memory_mib, card.whole_mib * holder.share_ppm // 1000000)), 0) >= 1024
ORDER BY card.cluster, card.device_uuid;
