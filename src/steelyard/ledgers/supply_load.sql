-- Stretches of each site in which neither its state nor what is booked there changes: the sums of all pieces, beside what the site has.
-- measurable: 1 where service is read off the measured minutes. Whole grains inside such a stretch need no look at single holders: there every
-- amount is a whole number, so what is free is what the site has less these sums. A place that only takes a transfer has no cards of its own, and a
-- row for each class of what is left of its cards that is taken (dim.supply_piece).
WITH
site AS (
    SELECT site_no, place_no, memory_mib, basis = 'transfer' AS is_transfer FROM dim.supply_site WHERE stay_no = 1
),

turn AS (
    SELECT
        site_no, turned_at, sum(cards) AS cards, sum(rest_account) AS rest_account, sum(rest_service) AS rest_service,
        sum(measurable) AS measurable, sum(share_ppm) AS share_ppm, sum(memory_mib) AS memory_mib, sum(memory_unknown) AS memory_unknown,
        sum(cores_percent) AS cores_percent
    FROM (
        SELECT
            site_no, from_us AS turned_at, cards, rest_account, rest_service,
            CASE WHEN broken OR not_ready_since_us IS NOT NULL THEN 0 ELSE 1 END AS measurable,
            0 AS share_ppm, 0 AS memory_mib, 0 AS memory_unknown, 0 AS cores_percent
        FROM dim.supply_stretch
        UNION ALL
        SELECT
            site_no, to_us, -cards, -rest_account, -rest_service,
            CASE WHEN broken OR not_ready_since_us IS NOT NULL THEN 0 ELSE -1 END, 0, 0, 0, 0
        FROM dim.supply_stretch
        UNION ALL
        SELECT site_no, from_us, 0, 0, 0, 0, share_ppm, coalesce(memory_mib, 0), CASE WHEN memory_mib IS NULL THEN 1 ELSE 0 END, cores_percent
        FROM dim.supply_piece
        WHERE account <> 'overcommitted'
        UNION ALL
        SELECT site_no, to_us, 0, 0, 0, 0, -share_ppm, -coalesce(memory_mib, 0), CASE WHEN memory_mib IS NULL THEN -1 ELSE 0 END, -cores_percent
        FROM dim.supply_piece
        WHERE account <> 'overcommitted'
    ) AS edge
    WHERE site_no NOT IN (SELECT site_no FROM site WHERE is_transfer)
    GROUP BY site_no, turned_at
),

swept AS (
    SELECT
        site_no, turned_at AS from_us, lead(turned_at) OVER sweep AS to_us,
        CAST(sum(cards) OVER sweep AS BIGINT) AS cards,
        CAST(sum(rest_account) OVER sweep AS INTEGER) AS rest_account,
        CAST(sum(rest_service) OVER sweep AS INTEGER) AS rest_service,
        CAST(sum(measurable) OVER sweep AS INTEGER) AS measurable,
        CAST(sum(share_ppm) OVER sweep AS BIGINT) AS share_ppm,
        CAST(sum(memory_mib) OVER sweep AS BIGINT) AS memory_mib,
        sum(memory_unknown) OVER sweep AS memory_unknown,
        CAST(sum(cores_percent) OVER sweep AS BIGINT) AS cores_percent
    FROM turn
    WINDOW sweep AS (PARTITION BY site_no ORDER BY turned_at)
),

-- A change of what a transfer takes of one class.
transfer_turn AS (
    SELECT
        site_no, rest_account, rest_service, turned_at, sum(share_ppm) AS share_ppm, sum(memory_mib) AS memory_mib, sum(memory_unknown) AS memory_unknown,
        sum(cores_percent) AS cores_percent
    FROM (
        SELECT
            site_no, rest_account, rest_service, from_us AS turned_at, share_ppm, coalesce(memory_mib, 0) AS memory_mib,
            CASE WHEN memory_mib IS NULL THEN 1 ELSE 0 END AS memory_unknown, cores_percent
        FROM dim.supply_piece
        WHERE account <> 'overcommitted' AND site_no IN (SELECT site_no FROM site WHERE is_transfer)
        UNION ALL
        SELECT
            site_no, rest_account, rest_service, to_us, -share_ppm, -coalesce(memory_mib, 0), CASE WHEN memory_mib IS NULL THEN -1 ELSE 0 END, -cores_percent
        FROM dim.supply_piece
        WHERE account <> 'overcommitted' AND site_no IN (SELECT site_no FROM site WHERE is_transfer)
    ) AS edge
    GROUP BY site_no, rest_account, rest_service, turned_at
),

transfer_swept AS (
    SELECT
        site_no, turned_at AS from_us, lead(turned_at) OVER sweep AS to_us, 0 AS cards, rest_account, rest_service, 0 AS measurable,
        CAST(sum(share_ppm) OVER sweep AS BIGINT) AS share_ppm,
        CAST(sum(memory_mib) OVER sweep AS BIGINT) AS memory_mib,
        sum(memory_unknown) OVER sweep AS memory_unknown,
        CAST(sum(cores_percent) OVER sweep AS BIGINT) AS cores_percent
    FROM transfer_turn
    WINDOW sweep AS (PARTITION BY site_no, rest_account, rest_service ORDER BY turned_at)
)

SELECT
    swept.site_no, site.place_no, swept.from_us, swept.to_us, swept.cards, swept.rest_account, swept.rest_service,
    swept.measurable, swept.share_ppm, swept.cores_percent,
    CASE WHEN swept.memory_unknown = 0 THEN swept.memory_mib END AS memory_mib,
    site.memory_mib AS card_mib
FROM (
    SELECT site_no, from_us, to_us, cards, rest_account, rest_service, measurable, share_ppm, memory_mib, memory_unknown, cores_percent
    FROM swept
    UNION ALL
    SELECT site_no, from_us, to_us, cards, rest_account, rest_service, measurable, share_ppm, memory_mib, memory_unknown, cores_percent
    FROM transfer_swept
) AS swept
JOIN site ON site.site_no = swept.site_no
WHERE swept.to_us IS NOT NULL
