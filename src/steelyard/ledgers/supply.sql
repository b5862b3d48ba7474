-- Where every GPU-second of every place went: one side `supply`, the other side its accounts, exact in integers (see supply.py).
--
-- Pieces of holdings and stretches of sites are cut into grains; what a class of time holds less what is held in it is the remainder, free or
-- unobserved. Free time is never cut by holders. Each amount is floored once per holder, grain and class, so that every rounding
-- remainder lands in free or unobserved. Codes: rest_account 0 free, 1 unobserved; service 0 up, 1 unknown, 2 down.
WITH
parameter AS (
    SELECT grain_us FROM dim.parameter
),

measured AS (
    SELECT site.place_no, epoch_us(hour.hour_at) AS hour_us, hour.minutes_mask
    FROM dim.measured_hour AS hour
    JOIN (SELECT DISTINCT place_no, cluster, place_id FROM dim.supply_site WHERE place_kind = 'device') AS site
        ON site.cluster = hour.cluster AND site.place_id = hour.device_uuid
),

grain_piece AS (
    SELECT
        holder_no, alone, excess_ppm, excess_mib, excess_percent, share_ppm, memory_mib, cores_percent, site_no, place_no, rest_account,
        rest_service, held_service, measurable, grain_us_at, grain_start_us(grain_us_at, 3600000000) AS hour_us,
        greatest(from_us, grain_us_at) AS from_us, least(to_us, grain_us_at + grain_us) AS to_us
    FROM (
        SELECT
            piece.*, parameter.grain_us,
            unnest(range(grain_start_us(piece.from_us, parameter.grain_us), piece.to_us, parameter.grain_us)) AS grain_us_at
        FROM dim.supply_piece AS piece
        CROSS JOIN parameter
    ) AS cut
),

timed_piece AS (
    SELECT
        piece.holder_no, piece.alone, piece.excess_ppm, piece.excess_mib, piece.excess_percent, piece.share_ppm, piece.memory_mib,
        piece.cores_percent, piece.site_no, piece.grain_us_at, piece.rest_account, piece.rest_service, piece.held_service,
        piece.to_us - piece.from_us AS length_us,
        CASE
            WHEN piece.measurable AND measured.minutes_mask IS NOT NULL
                THEN measured_us(measured.minutes_mask, piece.hour_us, piece.from_us, piece.to_us)
            ELSE 0
        END AS up_us
    FROM grain_piece AS piece
    LEFT JOIN measured ON measured.place_no = piece.place_no AND measured.hour_us = piece.hour_us
),

-- A holder that is one piece has one row a grain; all others are summed and then floored.
held_alone AS (
    SELECT
        holder_no, site_no, grain_us_at, rest_account, rest_service, held_service,
        gpu_time_us(up_us, share_ppm) AS up_gpu_us,
        gpu_time_us(length_us - up_us, share_ppm) AS rest_gpu_us,
        up_us * memory_mib AS up_mib_us,
        (length_us - up_us) * memory_mib AS rest_mib_us,
        up_us * cores_percent AS up_percent_us,
        (length_us - up_us) * cores_percent AS rest_percent_us
    FROM timed_piece
    WHERE alone
),

held_together AS (
    SELECT
        holder_no, site_no, grain_us_at, rest_account, rest_service, held_service,
        sum_of_gpu_time_us(up_us, share_ppm) AS up_gpu_us,
        sum_of_gpu_time_us(length_us - up_us, share_ppm) AS rest_gpu_us,
        CAST(sum(up_us * memory_mib) AS BIGINT) AS up_mib_us,
        CAST(sum((length_us - up_us) * memory_mib) AS BIGINT) AS rest_mib_us,
        CAST(sum(up_us * cores_percent) AS BIGINT) AS up_percent_us,
        CAST(sum((length_us - up_us) * cores_percent) AS BIGINT) AS rest_percent_us,
        sum_of_gpu_time_us(up_us, excess_ppm) AS up_excess_gpu_us,
        sum_of_gpu_time_us(length_us - up_us, excess_ppm) AS rest_excess_gpu_us,
        CAST(sum(up_us * excess_mib) AS BIGINT) AS up_excess_mib_us,
        CAST(sum((length_us - up_us) * excess_mib) AS BIGINT) AS rest_excess_mib_us,
        CAST(sum(up_us * excess_percent) AS BIGINT) AS up_excess_percent_us,
        CAST(sum((length_us - up_us) * excess_percent) AS BIGINT) AS rest_excess_percent_us
    FROM timed_piece
    WHERE NOT alone
    GROUP BY holder_no, site_no, grain_us_at, rest_account, rest_service, held_service
),

held_in_class AS (
    SELECT
        site_no, grain_us_at, rest_account, rest_service,
        CAST(sum(up_gpu_us) AS BIGINT) AS up_gpu_us, CAST(sum(rest_gpu_us) AS BIGINT) AS rest_gpu_us,
        TRY_CAST(sum(up_mib_us) AS BIGINT) AS up_mib_us, TRY_CAST(sum(rest_mib_us) AS BIGINT) AS rest_mib_us,
        CAST(sum(up_percent_us) AS BIGINT) AS up_percent_us, CAST(sum(rest_percent_us) AS BIGINT) AS rest_percent_us
    FROM (
        SELECT
            site_no, grain_us_at, rest_account, rest_service, up_gpu_us, rest_gpu_us, up_mib_us, rest_mib_us, up_percent_us,
            rest_percent_us
        FROM held_alone
        UNION ALL
        SELECT
            site_no, grain_us_at, rest_account, rest_service, up_gpu_us, rest_gpu_us, up_mib_us, rest_mib_us, up_percent_us,
            rest_percent_us
        FROM held_together
    ) AS held_class
    GROUP BY site_no, grain_us_at, rest_account, rest_service
),

grain_stretch AS (
    SELECT
        site_no, place_no, cards, rest_account, rest_service, measurable, grain_us_at,
        grain_start_us(grain_us_at, 3600000000) AS hour_us,
        greatest(from_us, grain_us_at) AS from_us, least(to_us, grain_us_at + grain_us) AS to_us
    FROM (
        SELECT
            stretch.*, NOT stretch.broken AND stretch.not_ready_since_us IS NULL AS measurable, parameter.grain_us,
            unnest(range(grain_start_us(stretch.from_us, parameter.grain_us), stretch.to_us, parameter.grain_us)) AS grain_us_at
        FROM dim.supply_stretch AS stretch
        CROSS JOIN parameter
    ) AS cut
),

timed_stretch AS (
    SELECT
        stretch.site_no, stretch.grain_us_at, stretch.cards, stretch.rest_account, stretch.rest_service,
        stretch.to_us - stretch.from_us AS length_us,
        CASE
            WHEN stretch.measurable AND measured.minutes_mask IS NOT NULL
                THEN measured_us(measured.minutes_mask, stretch.hour_us, stretch.from_us, stretch.to_us)
            ELSE 0
        END AS up_us
    FROM grain_stretch AS stretch
    LEFT JOIN measured ON measured.place_no = stretch.place_no AND measured.hour_us = stretch.hour_us
),

capacity_class AS (
    SELECT
        site_no, grain_us_at, rest_account, rest_service,
        CAST(sum(cards * up_us) AS BIGINT) AS up_card_us,
        CAST(sum(cards * (length_us - up_us)) AS BIGINT) AS rest_card_us
    FROM timed_stretch
    GROUP BY site_no, grain_us_at, rest_account, rest_service
),

remainder AS (
    SELECT
        capacity.site_no, capacity.grain_us_at, capacity.rest_account, capacity.rest_service,
        capacity.up_card_us - coalesce(held.up_gpu_us, 0) AS up_gpu_us,
        capacity.rest_card_us - coalesce(held.rest_gpu_us, 0) AS rest_gpu_us,
        capacity.up_card_us * site.memory_mib - CASE WHEN held.site_no IS NULL THEN 0 ELSE held.up_mib_us END AS up_mib_us,
        capacity.rest_card_us * site.memory_mib - CASE WHEN held.site_no IS NULL THEN 0 ELSE held.rest_mib_us END AS rest_mib_us,
        capacity.up_card_us * 100 - coalesce(held.up_percent_us, 0) AS up_percent_us,
        capacity.rest_card_us * 100 - coalesce(held.rest_percent_us, 0) AS rest_percent_us
    FROM capacity_class AS capacity
    JOIN dim.supply_site AS site ON site.site_no = capacity.site_no
    LEFT JOIN held_in_class AS held
        ON held.site_no = capacity.site_no AND held.grain_us_at = capacity.grain_us_at
        AND held.rest_account = capacity.rest_account AND held.rest_service = capacity.rest_service
    WHERE site.basis <> 'unknown'
),

-- What stands for the place itself. side: 0 supply, 1 the remainder.
place_posting AS (
    SELECT
        0 AS side, capacity.site_no, capacity.grain_us_at, CAST(NULL AS INTEGER) AS rest_account, CAST(NULL AS INTEGER) AS service,
        CAST(sum(capacity.up_card_us + capacity.rest_card_us) AS BIGINT) AS gpu_us,
        CAST(sum((capacity.up_card_us + capacity.rest_card_us) * site.memory_mib) AS BIGINT) AS mib_us,
        CAST(sum((capacity.up_card_us + capacity.rest_card_us) * 100) AS BIGINT) AS percent_us
    FROM capacity_class AS capacity
    JOIN dim.supply_site AS site ON site.site_no = capacity.site_no
    WHERE site.basis <> 'unknown'
    GROUP BY capacity.site_no, capacity.grain_us_at
    UNION ALL
    SELECT
        0, held.site_no, held.grain_us_at, NULL, NULL,
        CAST(sum(held.up_gpu_us + held.rest_gpu_us) AS BIGINT),
        TRY_CAST(sum(held.up_mib_us + held.rest_mib_us) AS BIGINT),
        CAST(sum(held.up_percent_us + held.rest_percent_us) AS BIGINT)
    FROM held_in_class AS held
    JOIN dim.supply_site AS site ON site.site_no = held.site_no
    WHERE site.basis = 'unknown'
    GROUP BY held.site_no, held.grain_us_at
    UNION ALL
    SELECT 1, site_no, grain_us_at, rest_account, 0, up_gpu_us, up_mib_us, up_percent_us
    FROM remainder
    WHERE rest_service = 1
    UNION ALL
    SELECT 1, site_no, grain_us_at, rest_account, rest_service, rest_gpu_us, rest_mib_us, rest_percent_us
    FROM remainder
),

-- What stands for a holder. side: 2 what it holds, 3 the memo of what it asked beyond the place.
holder_posting AS (
    SELECT 2 AS side, site_no, grain_us_at, holder_no, 0 AS service, up_gpu_us AS gpu_us, up_mib_us AS mib_us, up_percent_us AS percent_us
    FROM held_alone
    UNION ALL
    SELECT 2, site_no, grain_us_at, holder_no, held_service, rest_gpu_us, rest_mib_us, rest_percent_us
    FROM held_alone
    UNION ALL
    SELECT
        side, site_no, grain_us_at, holder_no, service,
        CAST(sum(gpu_us) AS BIGINT), CAST(sum(mib_us) AS BIGINT), CAST(sum(percent_us) AS BIGINT)
    FROM (
        SELECT
            2 AS side, site_no, grain_us_at, holder_no, 0 AS service, up_gpu_us AS gpu_us, up_mib_us AS mib_us,
            up_percent_us AS percent_us
        FROM held_together
        UNION ALL
        SELECT 2, site_no, grain_us_at, holder_no, held_service, rest_gpu_us, rest_mib_us, rest_percent_us
        FROM held_together
        UNION ALL
        SELECT 3, site_no, grain_us_at, holder_no, 0, up_excess_gpu_us, up_excess_mib_us, up_excess_percent_us
        FROM held_together
        UNION ALL
        SELECT 3, site_no, grain_us_at, holder_no, held_service, rest_excess_gpu_us, rest_excess_mib_us, rest_excess_percent_us
        FROM held_together
    ) AS part_of_holder
    GROUP BY side, site_no, grain_us_at, holder_no, service
),

holder AS (
    SELECT holder_no, min(account) AS account, min(pod_uid) AS pod_uid, min(unit_id) AS unit_id
    FROM dim.supply_piece
    GROUP BY holder_no
),

card AS (
    SELECT cluster, place_id AS device_uuid, min(from_us) AS from_us, max(to_us) AS to_us
    FROM dim.supply_site
    WHERE place_kind = 'device'
    GROUP BY cluster, place_id
),

-- The time from the old card's last supply to the new card's first belongs to the slot and was seen by nobody.
slot_gap AS (
    SELECT cluster, node, slot, lo, hi
    FROM (
        SELECT
            slot.cluster, slot.node, slot.slot, slot.device_uuid,
            lag(slot.device_uuid) OVER succession AS device_before,
            lag(card.to_us) OVER succession AS lo,
            card.from_us AS hi
        FROM dim.slot AS slot
        JOIN card
            ON card.cluster = slot.cluster AND card.device_uuid = slot.device_uuid
        WINDOW succession AS (
            PARTITION BY slot.cluster, slot.node, slot.slot ORDER BY slot.valid_from_at, slot.last_seen_at, slot.device_uuid
        )
    ) AS succeeding
    WHERE device_before <> device_uuid AND hi > lo
),

slot_grain AS (
    SELECT
        cut.cluster, cut.node, cut.slot, cut.grain_us_at,
        CAST(sum(least(cut.hi, cut.grain_us_at + parameter.grain_us) - greatest(cut.lo, cut.grain_us_at)) AS BIGINT) AS gpu_us
    FROM (
        SELECT
            slot_gap.cluster, slot_gap.node, slot_gap.slot, slot_gap.lo, slot_gap.hi,
            unnest(
                range(grain_start_us(slot_gap.lo, parameter.grain_us), slot_gap.hi, parameter.grain_us)
            ) AS grain_us_at
        FROM slot_gap
        CROSS JOIN parameter
    ) AS cut
    CROSS JOIN parameter
    GROUP BY cut.cluster, cut.node, cut.slot, cut.grain_us_at
)

SELECT
    site.cluster, site.place_kind, site.place_id, site.node,
    CASE WHEN site.place_kind = 'device' THEN site.place_id END AS device_uuid,
    make_timestamp(holder_posting.grain_us_at) AS grain_at,
    CASE holder_posting.side WHEN 2 THEN holder.account ELSE 'overcommitted' END AS account,
    CASE holder_posting.service WHEN 0 THEN 'up' WHEN 1 THEN 'unknown' WHEN 2 THEN 'down' END AS service,
    holder.pod_uid, holder.unit_id,
    holder_posting.gpu_us AS amount_gpu_us,
    holder_posting.mib_us AS memory_mib_us,
    holder_posting.percent_us AS cores_percent_us
FROM holder_posting
JOIN holder ON holder.holder_no = holder_posting.holder_no
JOIN dim.supply_site AS site ON site.site_no = holder_posting.site_no
WHERE holder_posting.gpu_us <> 0 OR holder_posting.mib_us <> 0 OR holder_posting.percent_us <> 0
UNION ALL
SELECT
    site.cluster, site.place_kind, site.place_id, site.node,
    CASE WHEN site.place_kind = 'device' THEN site.place_id END,
    make_timestamp(place_posting.grain_us_at),
    CASE WHEN place_posting.side = 0 THEN 'supply' WHEN place_posting.rest_account = 0 THEN 'free' ELSE 'unobserved' END,
    CASE place_posting.service WHEN 0 THEN 'up' WHEN 1 THEN 'unknown' WHEN 2 THEN 'down' END,
    NULL, NULL, place_posting.gpu_us, place_posting.mib_us, place_posting.percent_us
FROM place_posting
JOIN dim.supply_site AS site ON site.site_no = place_posting.site_no
WHERE place_posting.gpu_us <> 0 OR place_posting.mib_us <> 0 OR place_posting.percent_us <> 0
UNION ALL
SELECT
    slot_grain.cluster, 'slot', slot_grain.node || '/' || slot_grain.slot, slot_grain.node, NULL,
    make_timestamp(slot_grain.grain_us_at), side.account, side.service, NULL, NULL, slot_grain.gpu_us, NULL, slot_grain.gpu_us * 100
FROM slot_grain
CROSS JOIN (
    SELECT 'supply' AS account, CAST(NULL AS VARCHAR) AS service
    UNION ALL
    SELECT 'unobserved', 'unknown'
) AS side
