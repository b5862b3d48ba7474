-- What holds for every profile from when to when: its price lines by name, currency, discount; or why it has no price. One row per stretch in which neither a line nor a
-- discount begins or ends; together they cover all time. `model unknown`: no line of the book names the card's model; `no price`: some does, but none that holds here.
WITH
discounting AS (
    SELECT profile.profile_no, line.discount_ppm, line.specificity, line.from_us, line.to_us
    FROM dim.price_profile AS profile
    JOIN dim.discount_line AS line
        ON profile.side = 'charge' AND line.tenant = profile.tenant AND (line.commitment IS NULL OR line.commitment = profile.commitment)
        AND list_has_all(profile.words, line.words)
),

-- Profiles whose model the book of their side knows: some line names it, or any model.
named AS (
    SELECT DISTINCT profile.profile_no
    FROM dim.price_profile AS profile
    JOIN dim.price_line AS line ON line.side = profile.side AND list_has_all(profile.words, line.words)
),

turn AS (
    SELECT profile_no, from_us AS turned_us FROM dim.price_part
    UNION
    SELECT profile_no, to_us FROM dim.price_part
    UNION
    SELECT profile_no, from_us FROM discounting
    UNION
    SELECT profile_no, to_us FROM discounting
    UNION
    SELECT profile_no, -4611686018427387904 FROM dim.price_profile
    UNION
    SELECT profile_no, 4611686018427387904 FROM dim.price_profile
),

stretch AS (
    SELECT profile_no, from_us, to_us
    FROM (
        SELECT profile_no, turned_us AS from_us, lead(turned_us) OVER (PARTITION BY profile_no ORDER BY turned_us) AS to_us FROM turn
    ) AS swept
    WHERE to_us IS NOT NULL
),

priced AS (
    SELECT
        stretch.profile_no, stretch.from_us, stretch.to_us, string_agg(part.price_id, '+' ORDER BY part.component) AS price_id,
        min(part.currency) AS currency, bool_or(part.provisional) AS provisional, bool_or(part.alike > 1) AS ambiguous,
        bool_or(part.price_micro IS NULL) AS unstated, bool_or(part.price_micro IS NULL AND part.stated_micro IS NOT NULL) AS implausible,
        count(DISTINCT part.currency) AS currencies
    FROM stretch
    JOIN dim.price_part AS part ON part.profile_no = stretch.profile_no AND part.from_us <= stretch.from_us AND part.to_us >= stretch.to_us
    GROUP BY stretch.profile_no, stretch.from_us, stretch.to_us
),

discounted AS (
    SELECT
        profile_no, from_us, min(discount_ppm) FILTER (WHERE place = 1) AS discount_ppm, count(*) FILTER (WHERE place = 1) AS alike
    FROM (
        SELECT
            stretch.profile_no, stretch.from_us, discounting.discount_ppm,
            rank() OVER (PARTITION BY stretch.profile_no, stretch.from_us ORDER BY discounting.specificity DESC) AS place
        FROM stretch
        JOIN discounting
            ON discounting.profile_no = stretch.profile_no AND discounting.from_us <= stretch.from_us AND discounting.to_us >= stretch.to_us
    ) AS ranked
    GROUP BY profile_no, from_us
)

SELECT
    stretch.profile_no, stretch.from_us, stretch.to_us,
    CASE WHEN priced.ambiguous THEN NULL ELSE priced.price_id END AS price_id,
    CASE WHEN priced.currencies = 1 THEN priced.currency END AS currency,
    coalesce(priced.provisional, FALSE) AS provisional,
    CASE WHEN discounted.alike > 1 THEN NULL ELSE coalesce(discounted.discount_ppm, 0) END AS discount_ppm,
    CASE
        WHEN priced.profile_no IS NULL AND named.profile_no IS NULL AND sided.side IS NOT NULL THEN 'model unknown'
        WHEN priced.profile_no IS NULL THEN 'no price'
        WHEN priced.ambiguous THEN 'price ambiguous'
        WHEN priced.implausible THEN 'price implausible'
        WHEN priced.unstated THEN 'price not known'
        WHEN priced.currencies > 1 THEN 'two currencies'
        WHEN discounted.alike > 1 THEN 'discount ambiguous'
    END AS unpriced_reason
FROM stretch
JOIN dim.price_profile AS profile ON profile.profile_no = stretch.profile_no
LEFT JOIN priced ON priced.profile_no = stretch.profile_no AND priced.from_us = stretch.from_us
LEFT JOIN discounted ON discounted.profile_no = stretch.profile_no AND discounted.from_us = stretch.from_us
LEFT JOIN named ON named.profile_no = stretch.profile_no
LEFT JOIN (SELECT DISTINCT side FROM dim.price_line) AS sided ON sided.side = profile.side
