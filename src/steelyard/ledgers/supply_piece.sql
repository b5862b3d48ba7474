-- What every holder takes, when, out of which remainder: the claims (dim.supply_claim), and where a place only takes a transfer, cut by what is left of
-- its cards (dim.supply_room). Holders stand there on a line, what is left of each class on another; where they overlap, the holder takes of the class.
-- What is asked beyond all that is left is scaled, the excess is a memo (`overcommitted`). Where no card is known to be there, supply is what is held.
-- Pieces of one holder may overlap there (`doubled`): they are summed before they are floored.
WITH
claim AS (
    SELECT claim.*
    FROM dim.supply_claim AS claim
    JOIN dim.supply_site AS site ON site.site_no = claim.site_no AND site.stay_no = 1 AND site.basis = 'transfer'
),

cut AS (
    SELECT
        claim.holder_no, claim.memo_no, claim.site_no, claim.place_no, claim.account, claim.pod_uid, claim.unit_id, room.from_us, room.to_us,
        claim.held_service, claim.measurable, room.cards, claim.share_ppm AS asked_ppm, claim.memory_mib AS asked_mib, claim.cores_percent AS asked_percent,
        claim.from_us AS claimed_us,
        CASE WHEN room.cards = 0 THEN claim.share_ppm ELSE booked_share_ppm(claim.share_ppm, room.asked_ppm, room.all_ppm) END AS share_ppm,
        CASE WHEN room.cards = 0 THEN claim.memory_mib ELSE booked_share_ppm(claim.memory_mib, room.asked_mib, room.all_mib) END AS memory_mib,
        CASE WHEN room.cards = 0 THEN claim.cores_percent ELSE booked_share_ppm(claim.cores_percent, room.asked_percent, room.all_percent) END
            AS cores_percent
    FROM claim
    JOIN (
        SELECT site_no, from_us, to_us, cards, asked_ppm, asked_mib, asked_percent, all_ppm, all_mib, all_percent
        FROM dim.supply_room
        WHERE class_no = 0
    ) AS room ON room.site_no = claim.site_no AND room.from_us >= claim.from_us AND room.to_us <= claim.to_us
),

line AS (
    SELECT
        *,
        CAST(sum(share_ppm) OVER line AS BIGINT) - share_ppm AS before_ppm,
        CAST(sum(coalesce(memory_mib, 0)) OVER line AS BIGINT) - coalesce(memory_mib, 0) AS before_mib,
        CAST(sum(cores_percent) OVER line AS BIGINT) - cores_percent AS before_percent
    FROM cut
    WINDOW line AS (
        PARTITION BY site_no, from_us ORDER BY holder_no, claimed_us, asked_ppm, asked_mib, asked_percent ROWS UNBOUNDED PRECEDING
    )
),

-- Where memory is not known it is so in every part; a holder that takes nothing that is known stands in the first class.
taken AS (
    SELECT
        line.holder_no, line.site_no, line.place_no, line.account, line.pod_uid, line.unit_id, line.from_us, line.to_us, line.held_service,
        line.measurable, room.class_no,
        greatest(0, least(line.before_ppm + line.share_ppm, room.before_ppm + room.room_ppm) - greatest(line.before_ppm, room.before_ppm)) AS share_ppm,
        CASE
            WHEN line.memory_mib IS NOT NULL
                THEN greatest(0, least(line.before_mib + line.memory_mib, room.before_mib + room.room_mib) - greatest(line.before_mib, room.before_mib))
        END AS memory_mib,
        greatest(
            0, least(line.before_percent + line.cores_percent, room.before_percent + room.room_percent) - greatest(line.before_percent, room.before_percent)
        ) AS cores_percent,
        line.share_ppm + line.cores_percent = 0 AS takes_nothing
    FROM line
    JOIN dim.supply_room AS room ON room.site_no = line.site_no AND room.from_us = line.from_us
    WHERE line.cards > 0
)

SELECT
    claim.holder_no, claim.site_no, claim.place_no, claim.account, claim.pod_uid, claim.unit_id, claim.from_us, claim.to_us, claim.share_ppm,
    claim.memory_mib, claim.cores_percent, claim.rest_account, claim.rest_service, claim.held_service, claim.measurable, claim.doubled
FROM dim.supply_claim AS claim
JOIN dim.supply_site AS site ON site.site_no = claim.site_no AND site.stay_no = 1 AND site.basis <> 'transfer'
UNION ALL
SELECT
    holder_no, site_no, place_no, account, pod_uid, unit_id, from_us, to_us, share_ppm, memory_mib, cores_percent,
    CASE WHEN class_no IN (0, 3) THEN 0 ELSE 1 END, CASE WHEN class_no < 2 THEN 1 ELSE 2 END, held_service, measurable, TRUE
FROM taken
WHERE share_ppm > 0 OR memory_mib > 0 OR cores_percent > 0 OR (class_no = 0 AND takes_nothing AND memory_mib IS NULL)
UNION ALL
SELECT
    holder_no, site_no, place_no, account, pod_uid, unit_id, from_us, to_us, share_ppm, memory_mib, cores_percent, 2, 1, held_service, measurable, TRUE
FROM line
WHERE cards = 0
UNION ALL
SELECT
    memo_no, site_no, place_no, 'overcommitted', pod_uid, unit_id, from_us, to_us, asked_ppm - share_ppm, asked_mib - memory_mib,
    asked_percent - cores_percent, 0, 1, held_service, measurable, TRUE
FROM line
WHERE asked_ppm > share_ppm OR asked_mib > memory_mib OR asked_percent > cores_percent
