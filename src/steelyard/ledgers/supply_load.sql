-- Stretches of each site in which neither its state nor what is booked there changes: the sums of all pieces, beside what the site has.
-- measurable: 1 where service is read off the measured minutes. Whole grains inside such a stretch need no look at single holders: there every
-- amount is a whole number, so what is free is what the site has less these sums.
WITH
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
)

SELECT
    swept.site_no, site.place_no, swept.from_us, swept.to_us, swept.cards, swept.rest_account, swept.rest_service,
    swept.measurable, swept.share_ppm, swept.cores_percent,
    CASE WHEN swept.memory_unknown = 0 THEN swept.memory_mib END AS memory_mib,
    site.memory_mib AS card_mib
FROM swept
JOIN dim.supply_site AS site ON site.site_no = swept.site_no AND site.stay_no = 1
WHERE swept.to_us IS NOT NULL
