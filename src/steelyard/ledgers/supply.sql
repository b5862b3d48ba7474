-- Where every GPU-second of every place went: one side `supply`, the other side its accounts, exact in integers (see supply.py).
--
-- Two paths. Whole grains: nothing changes in them, so every amount is a plain product; they are nearly all. Edge grains, in which something
-- turns: pieces are cut, summed per holder and class, floored once, and what a class of time holds less what is held in it is the remainder.
-- Either way a rounding remainder lands in free or unobserved. Codes: rest_account 0 free, 1 unobserved, 2 none
-- (supply is what is held); service 0 up, 1 unknown, 2 down.
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

-- How long a card was measured in each whole grain.
measured_grain AS (
    SELECT place_no, grain_us_at, measured_us(minutes_mask, hour_us, grain_us_at, grain_us_at + grain_us) AS up_us
    FROM (
        SELECT
            measured.place_no, measured.hour_us, measured.minutes_mask, parameter.grain_us,
            unnest(range(measured.hour_us, measured.hour_us + 3600000000, parameter.grain_us)) AS grain_us_at
        FROM measured
        CROSS JOIN parameter
    ) AS cut
),

-- Whole grains: the place itself -----------------------------------------------------------------------------------------------------
calm_grain AS (
    SELECT
        load.*, parameter.grain_us,
        unnest(
            range(
                grain_start_us(load.from_us + parameter.grain_us - 1, parameter.grain_us),
                grain_start_us(load.to_us, parameter.grain_us), parameter.grain_us
            )
        ) AS grain_us_at
    FROM dim.supply_load AS load
    CROSS JOIN parameter
),

timed_calm_grain AS (
    SELECT
        calm.site_no, calm.grain_us_at, calm.cards, calm.rest_account, calm.rest_service, calm.card_mib, calm.share_ppm,
        calm.memory_mib, calm.cores_percent, calm.grain_us,
        CASE WHEN calm.measurable = 1 THEN coalesce(measured.up_us, 0) ELSE 0 END AS up_us
    FROM calm_grain AS calm
    LEFT JOIN measured_grain AS measured ON measured.place_no = calm.place_no AND measured.grain_us_at = calm.grain_us_at
),

-- side: 0 supply, 1 the remainder.
calm_posting AS (
    SELECT
        side, site_no, grain_us_at, rest_account, service,
        CASE
            WHEN rest_account = 2 THEN length_us // 1000000 * share_ppm
            WHEN side = 0 THEN length_us * cards
            ELSE length_us * cards - length_us // 1000000 * share_ppm
        END AS gpu_us,
        CASE
            WHEN rest_account = 2 THEN length_us * memory_mib
            WHEN side = 0 THEN length_us * (cards * card_mib)
            ELSE length_us * (cards * card_mib - memory_mib)
        END AS mib_us,
        CASE
            WHEN rest_account = 2 THEN length_us * cores_percent
            WHEN side = 0 THEN length_us * (cards * 100)
            ELSE length_us * (cards * 100 - cores_percent)
        END AS percent_us
    FROM (
        SELECT
            calm.*, kind.side,
            CASE kind.kind_no WHEN 0 THEN NULL WHEN 1 THEN 0 ELSE calm.rest_service END AS service,
            CASE kind.kind_no WHEN 0 THEN calm.grain_us WHEN 1 THEN calm.up_us ELSE calm.grain_us - calm.up_us END AS length_us
        FROM timed_calm_grain AS calm
        CROSS JOIN (
            SELECT 0 AS kind_no, 0 AS side
            UNION ALL
            SELECT 1, 1
            UNION ALL
            SELECT 2, 1
        ) AS kind
    ) AS laid
    WHERE length_us > 0 AND (side = 0 OR rest_account <> 2)
),

-- Whole grains: holders --------------------------------------------------------------------------------------------------------------
whole_posting AS (
    SELECT
        site_no, grain_us_at, holder_no, service, length_us // 1000000 * share_ppm AS gpu_us, length_us * memory_mib AS mib_us,
        length_us * cores_percent AS percent_us
    FROM (
        SELECT
            timed.site_no, timed.grain_us_at, timed.holder_no, timed.share_ppm, timed.memory_mib, timed.cores_percent,
            CASE kind.up WHEN 1 THEN 0 ELSE timed.held_service END AS service,
            CASE kind.up WHEN 1 THEN timed.up_us ELSE timed.grain_us - timed.up_us END AS length_us
        FROM (
            SELECT piece.*, CASE WHEN piece.measurable THEN coalesce(measured.up_us, 0) ELSE 0 END AS up_us
            FROM (
                SELECT
                    piece.*, parameter.grain_us,
                    unnest(
                        range(
                            grain_start_us(piece.from_us + parameter.grain_us - 1, parameter.grain_us),
                            grain_start_us(piece.to_us, parameter.grain_us), parameter.grain_us
                        )
                    ) AS grain_us_at
                FROM dim.supply_piece AS piece
                CROSS JOIN parameter
                WHERE NOT piece.doubled
            ) AS piece
            LEFT JOIN measured_grain AS measured ON measured.place_no = piece.place_no AND measured.grain_us_at = piece.grain_us_at
        ) AS timed
        CROSS JOIN (
            SELECT 1 AS up
            UNION ALL
            SELECT 0
        ) AS kind
    ) AS laid
    WHERE length_us > 0
),

-- Edge grains: what is held ----------------------------------------------------------------------------------------------------------
edge_grain AS (
    SELECT load.site_no, grain_start_us(load.from_us, parameter.grain_us) AS grain_us_at
    FROM dim.supply_load AS load
    CROSS JOIN parameter
    WHERE load.from_us % parameter.grain_us <> 0
    UNION
    SELECT load.site_no, grain_start_us(load.to_us, parameter.grain_us)
    FROM dim.supply_load AS load
    CROSS JOIN parameter
    WHERE load.to_us % parameter.grain_us <> 0
),

-- Parts of grains of all pieces; of a holder that stands twice at one place (two resources of one pod) whole grains too.
piece_part AS (
    SELECT
        piece.*, parameter.grain_us,
        unnest(range(grain_start_us(piece.from_us, parameter.grain_us), piece.to_us, parameter.grain_us)) AS grain_us_at
    FROM dim.supply_piece AS piece
    CROSS JOIN parameter
    WHERE piece.doubled
    UNION ALL
    SELECT piece.*, parameter.grain_us, grain_start_us(piece.from_us, parameter.grain_us)
    FROM dim.supply_piece AS piece
    CROSS JOIN parameter
    WHERE NOT piece.doubled
        AND (
            piece.from_us % parameter.grain_us <> 0
            OR grain_start_us(piece.from_us, parameter.grain_us) = grain_start_us(piece.to_us, parameter.grain_us)
        )
    UNION ALL
    SELECT piece.*, parameter.grain_us, grain_start_us(piece.to_us, parameter.grain_us)
    FROM dim.supply_piece AS piece
    CROSS JOIN parameter
    WHERE NOT piece.doubled AND piece.to_us % parameter.grain_us <> 0
        AND grain_start_us(piece.from_us, parameter.grain_us) <> grain_start_us(piece.to_us, parameter.grain_us)
),

cut_piece AS (
    SELECT
        holder_no, site_no, place_no, grain_us_at, rest_account, rest_service, held_service, measurable, share_ppm, memory_mib,
        cores_percent, grain_start_us(grain_us_at, 3600000000) AS hour_us,
        greatest(from_us, grain_us_at) AS lo, least(to_us, grain_us_at + grain_us) AS hi
    FROM piece_part
),

timed_piece AS (
    SELECT
        piece.holder_no, piece.site_no, piece.grain_us_at, piece.rest_account, piece.rest_service, piece.held_service, piece.share_ppm,
        piece.memory_mib, piece.cores_percent,
        piece.hi - piece.lo AS length_us,
        CASE
            WHEN piece.measurable AND measured.minutes_mask IS NOT NULL
                THEN measured_us(measured.minutes_mask, piece.hour_us, piece.lo, piece.hi)
            ELSE 0
        END AS up_us
    FROM cut_piece AS piece
    LEFT JOIN measured ON measured.place_no = piece.place_no AND measured.hour_us = piece.hour_us
),

held_class AS (
    SELECT
        holder_no, site_no, grain_us_at, rest_account, rest_service, held_service,
        sum_of_gpu_time_us(up_us, share_ppm) AS up_gpu_us,
        sum_of_gpu_time_us(length_us - up_us, share_ppm) AS rest_gpu_us,
        CASE WHEN bool_and(memory_mib IS NOT NULL OR up_us = 0) THEN CAST(sum(up_us * coalesce(memory_mib, 0)) AS BIGINT) END
            AS up_mib_us,
        CASE
            WHEN bool_and(memory_mib IS NOT NULL OR up_us = length_us)
                THEN CAST(sum((length_us - up_us) * coalesce(memory_mib, 0)) AS BIGINT)
        END AS rest_mib_us,
        CAST(sum(up_us * cores_percent) AS BIGINT) AS up_percent_us,
        CAST(sum((length_us - up_us) * cores_percent) AS BIGINT) AS rest_percent_us
    FROM timed_piece
    GROUP BY holder_no, site_no, grain_us_at, rest_account, rest_service, held_service
),

part_posting AS (
    SELECT
        site_no, grain_us_at, holder_no, service,
        CAST(sum(gpu_us) AS BIGINT) AS gpu_us,
        CASE WHEN count(mib_us) = count(*) THEN CAST(sum(mib_us) AS BIGINT) END AS mib_us,
        CAST(sum(percent_us) AS BIGINT) AS percent_us
    FROM (
        SELECT
            site_no, grain_us_at, holder_no, 0 AS service, up_gpu_us AS gpu_us, up_mib_us AS mib_us, up_percent_us AS percent_us
        FROM held_class
        UNION ALL
        SELECT site_no, grain_us_at, holder_no, held_service, rest_gpu_us, rest_mib_us, rest_percent_us
        FROM held_class
    ) AS part_of_holder
    GROUP BY site_no, grain_us_at, holder_no, service
),

-- Edge grains: the place itself ------------------------------------------------------------------------------------------------------
-- Pieces that fill an edge grain are posted with the whole grains; here they only count against the place.
filling_piece AS (
    SELECT
        edge.site_no, edge.grain_us_at, piece.rest_account, piece.rest_service, piece.share_ppm, piece.memory_mib, piece.cores_percent,
        parameter.grain_us,
        CASE WHEN piece.measurable THEN coalesce(measured.up_us, 0) ELSE 0 END AS up_us
    FROM edge_grain AS edge
    CROSS JOIN parameter
    JOIN dim.supply_piece AS piece
        ON piece.site_no = edge.site_no AND NOT piece.doubled AND piece.account <> 'overcommitted' AND piece.from_us <= edge.grain_us_at
        AND piece.to_us >= edge.grain_us_at + parameter.grain_us
    LEFT JOIN measured_grain AS measured ON measured.place_no = piece.place_no AND measured.grain_us_at = edge.grain_us_at
),

held_in_class AS (
    SELECT
        site_no, grain_us_at, rest_account, rest_service,
        CAST(sum(up_gpu_us) AS BIGINT) AS up_gpu_us, CAST(sum(rest_gpu_us) AS BIGINT) AS rest_gpu_us,
        CASE WHEN count(up_mib_us) = count(*) THEN TRY_CAST(sum(up_mib_us) AS BIGINT) END AS up_mib_us,
        CASE WHEN count(rest_mib_us) = count(*) THEN TRY_CAST(sum(rest_mib_us) AS BIGINT) END AS rest_mib_us,
        CAST(sum(up_percent_us) AS BIGINT) AS up_percent_us, CAST(sum(rest_percent_us) AS BIGINT) AS rest_percent_us
    FROM (
        SELECT
            held.site_no, held.grain_us_at, held.rest_account, held.rest_service, held.up_gpu_us, held.rest_gpu_us, held.up_mib_us,
            held.rest_mib_us, held.up_percent_us, held.rest_percent_us
        FROM held_class AS held
        JOIN edge_grain AS edge ON edge.site_no = held.site_no AND edge.grain_us_at = held.grain_us_at
        WHERE held.holder_no > 0
        UNION ALL
        SELECT
            site_no, grain_us_at, rest_account, rest_service, up_us // 1000000 * share_ppm, (grain_us - up_us) // 1000000 * share_ppm,
            up_us * memory_mib, (grain_us - up_us) * memory_mib, up_us * cores_percent, (grain_us - up_us) * cores_percent
        FROM filling_piece
    ) AS held_at_edge
    GROUP BY site_no, grain_us_at, rest_account, rest_service
),

load_part AS (
    SELECT load.*, parameter.grain_us, grain_start_us(load.from_us, parameter.grain_us) AS grain_us_at
    FROM dim.supply_load AS load
    CROSS JOIN parameter
    WHERE load.from_us % parameter.grain_us <> 0
        OR grain_start_us(load.from_us, parameter.grain_us) = grain_start_us(load.to_us, parameter.grain_us)
    UNION ALL
    SELECT load.*, parameter.grain_us, grain_start_us(load.to_us, parameter.grain_us)
    FROM dim.supply_load AS load
    CROSS JOIN parameter
    WHERE load.to_us % parameter.grain_us <> 0
        AND grain_start_us(load.from_us, parameter.grain_us) <> grain_start_us(load.to_us, parameter.grain_us)
),

cut_load AS (
    SELECT
        site_no, place_no, card_mib, cards, rest_account, rest_service, measurable, grain_us_at,
        grain_start_us(grain_us_at, 3600000000) AS hour_us,
        greatest(from_us, grain_us_at) AS lo, least(to_us, grain_us_at + grain_us) AS hi
    FROM load_part
),

capacity_class AS (
    SELECT
        site_no, grain_us_at, rest_account, rest_service, min(card_mib) AS card_mib,
        CAST(sum(cards * up_us) AS BIGINT) AS up_card_us,
        CAST(sum(cards * (length_us - up_us)) AS BIGINT) AS rest_card_us
    FROM (
        SELECT
            load.*, load.hi - load.lo AS length_us,
            CASE
                WHEN load.measurable = 1 AND measured.minutes_mask IS NOT NULL
                    THEN measured_us(measured.minutes_mask, load.hour_us, load.lo, load.hi)
                ELSE 0
            END AS up_us
        FROM cut_load AS load
        LEFT JOIN measured ON measured.place_no = load.place_no AND measured.hour_us = load.hour_us
    ) AS timed_load
    GROUP BY site_no, grain_us_at, rest_account, rest_service
),

balance AS (
    SELECT
        capacity.site_no, capacity.grain_us_at, capacity.rest_account, capacity.rest_service, capacity.card_mib,
        capacity.up_card_us, capacity.rest_card_us,
        coalesce(held.up_gpu_us, 0) AS up_gpu_us,
        coalesce(held.rest_gpu_us, 0) AS rest_gpu_us,
        CASE WHEN held.site_no IS NULL THEN 0 ELSE held.up_mib_us END AS up_mib_us,
        CASE WHEN held.site_no IS NULL THEN 0 ELSE held.rest_mib_us END AS rest_mib_us,
        coalesce(held.up_percent_us, 0) AS up_percent_us,
        coalesce(held.rest_percent_us, 0) AS rest_percent_us
    FROM capacity_class AS capacity
    LEFT JOIN held_in_class AS held
        ON held.site_no = capacity.site_no AND held.grain_us_at = capacity.grain_us_at
        AND held.rest_account = capacity.rest_account AND held.rest_service = capacity.rest_service
),

edge_posting AS (
    SELECT
        0 AS side, site_no, grain_us_at, CAST(NULL AS INTEGER) AS rest_account, CAST(NULL AS INTEGER) AS service,
        CAST(
            sum(CASE WHEN rest_account = 2 THEN up_gpu_us + rest_gpu_us ELSE up_card_us + rest_card_us END) AS BIGINT
        ) AS gpu_us,
        CASE
            WHEN bool_and(
                CASE WHEN rest_account = 2 THEN up_mib_us + rest_mib_us IS NOT NULL ELSE card_mib IS NOT NULL OR up_card_us + rest_card_us = 0 END
            )
                THEN TRY_CAST(
                    sum(CASE WHEN rest_account = 2 THEN up_mib_us + rest_mib_us ELSE (up_card_us + rest_card_us) * coalesce(card_mib, 0) END)
                    AS BIGINT
                )
        END AS mib_us,
        CAST(
            sum(CASE WHEN rest_account = 2 THEN up_percent_us + rest_percent_us ELSE (up_card_us + rest_card_us) * 100 END) AS BIGINT
        ) AS percent_us
    FROM balance
    GROUP BY site_no, grain_us_at
    UNION ALL
    SELECT
        1, site_no, grain_us_at, rest_account, 0, up_card_us - up_gpu_us, up_card_us * card_mib - up_mib_us,
        up_card_us * 100 - up_percent_us
    FROM balance
    WHERE rest_account <> 2 AND rest_service = 1
    UNION ALL
    SELECT
        1, site_no, grain_us_at, rest_account, rest_service, rest_card_us - rest_gpu_us, rest_card_us * card_mib - rest_mib_us,
        rest_card_us * 100 - rest_percent_us
    FROM balance
    WHERE rest_account <> 2
),

-- All of it, by name -----------------------------------------------------------------------------------------------------------------
holder AS (
    SELECT holder_no, min(account) AS account, min(pod_uid) AS pod_uid, min(unit_id) AS unit_id
    FROM dim.supply_piece
    GROUP BY holder_no
),

held_posting AS (
    SELECT site_no, grain_us_at, holder_no, service, gpu_us, mib_us, percent_us FROM whole_posting
    UNION ALL
    SELECT site_no, grain_us_at, holder_no, service, gpu_us, mib_us, percent_us FROM part_posting
),

place_posting AS (
    SELECT side, site_no, grain_us_at, rest_account, service, gpu_us, mib_us, percent_us FROM calm_posting
    UNION ALL
    SELECT side, site_no, grain_us_at, rest_account, service, gpu_us, mib_us, percent_us FROM edge_posting
),

slot_grain AS (
    SELECT
        cluster, node, slot, grain_us_at, CAST(sum(least(to_us, grain_us_at + grain_us) - greatest(from_us, grain_us_at)) AS BIGINT) AS gpu_us
    FROM (
        SELECT
            slot.*, parameter.grain_us,
            unnest(range(grain_start_us(slot.from_us, parameter.grain_us), slot.to_us, parameter.grain_us)) AS grain_us_at
        FROM dim.supply_slot AS slot
        CROSS JOIN parameter
    ) AS cut
    GROUP BY cluster, node, slot, grain_us_at
),

site_key AS (
    SELECT site.site_no, key.key_no
    FROM dim.supply_site AS site
    JOIN dim.supply_key AS key
        ON key.cluster = site.cluster AND key.place_kind = site.place_kind AND key.place_id = site.place_id
        AND key.node IS NOT DISTINCT FROM site.node
    WHERE site.stay_no = 1
)

SELECT
    site.key_no, make_timestamp(posting.grain_us_at) AS grain_at, holder.account,
    CASE posting.service WHEN 0 THEN 'up' WHEN 1 THEN 'unknown' WHEN 2 THEN 'down' END AS service,
    holder.pod_uid, holder.unit_id,
    posting.gpu_us AS amount_gpu_us, posting.mib_us AS memory_mib_us, posting.percent_us AS cores_percent_us
FROM held_posting AS posting
JOIN holder ON holder.holder_no = posting.holder_no
JOIN site_key AS site ON site.site_no = posting.site_no
WHERE posting.gpu_us <> 0 OR posting.mib_us <> 0 OR posting.percent_us <> 0
UNION ALL
SELECT
    site.key_no, make_timestamp(posting.grain_us_at),
    CASE WHEN posting.side = 0 THEN 'supply' WHEN posting.rest_account = 0 THEN 'free' ELSE 'unobserved' END,
    CASE posting.service WHEN 0 THEN 'up' WHEN 1 THEN 'unknown' WHEN 2 THEN 'down' END,
    NULL, NULL, posting.gpu_us, posting.mib_us, posting.percent_us
FROM place_posting AS posting
JOIN site_key AS site ON site.site_no = posting.site_no
WHERE posting.gpu_us <> 0 OR posting.mib_us <> 0 OR posting.percent_us <> 0
UNION ALL
SELECT
    key.key_no, make_timestamp(slot_grain.grain_us_at), side.account, side.service, NULL, NULL, slot_grain.gpu_us, NULL,
    slot_grain.gpu_us * 100
FROM slot_grain
JOIN dim.supply_key AS key
    ON key.place_kind = 'slot' AND key.cluster = slot_grain.cluster AND key.node = slot_grain.node
    AND key.place_id = slot_grain.node || '/' || slot_grain.slot
CROSS JOIN (
    SELECT 'supply' AS account, CAST(NULL AS VARCHAR) AS service
    UNION ALL
    SELECT 'unobserved', 'unknown'
) AS side
