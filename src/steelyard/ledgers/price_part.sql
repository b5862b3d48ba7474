-- Of every profile and every stretch in which no line of it begins or ends: the most specific line of each component. alike: how many lines are so; where it is more than
-- one, which of them is meant is not known.
WITH
holds AS (
    SELECT
        profile.profile_no, line.component, line.price_id, line.price_micro, line.stated_micro, line.per, line.currency, line.provisional, line.specificity, line.from_us,
        line.to_us
    FROM dim.price_profile AS profile
    JOIN dim.price_line AS line
        ON line.side = profile.side AND (line.for_cluster IS NULL OR line.for_cluster = profile.cluster)
        AND (line.unit_kind IS NULL OR line.unit_kind = profile.unit_kind) AND (line.commitment IS NULL OR line.commitment = profile.commitment)
        AND (line.tenant IS NULL OR line.tenant = profile.tenant) AND list_has_all(profile.words, line.words)
),

turn AS (
    SELECT profile_no, from_us AS turned_us FROM holds
    UNION
    SELECT profile_no, to_us FROM holds
),

stretch AS (
    SELECT profile_no, from_us, to_us
    FROM (
        SELECT profile_no, turned_us AS from_us, lead(turned_us) OVER (PARTITION BY profile_no ORDER BY turned_us) AS to_us FROM turn
    ) AS swept
    WHERE to_us IS NOT NULL
),

ranked AS (
    SELECT
        stretch.profile_no, stretch.from_us, stretch.to_us, holds.component, holds.price_id, holds.price_micro, holds.stated_micro, holds.per, holds.currency,
        holds.provisional,
        rank() OVER (PARTITION BY stretch.profile_no, stretch.from_us, holds.component ORDER BY holds.specificity DESC) AS place
    FROM stretch
    JOIN holds ON holds.profile_no = stretch.profile_no AND holds.from_us <= stretch.from_us AND holds.to_us >= stretch.to_us
)

SELECT
    profile_no, from_us, to_us, component, count(*) AS alike, min(price_id) AS price_id, min(price_micro) AS price_micro, min(stated_micro) AS stated_micro,
    min(per) AS per, min(currency) AS currency, bool_or(provisional) AS provisional, string_agg(price_id, ', ' ORDER BY price_id) AS price_ids
FROM ranked
WHERE place = 1
GROUP BY profile_no, from_us, to_us, component
