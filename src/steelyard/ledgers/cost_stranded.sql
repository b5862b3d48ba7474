-- What typical requests cannot use of a card's free share, by popularity: of each card and grain of the window of which something is free, the parts (lost of whole) that are
-- stranded. A class fits a card whose mean free share in the grain is what it takes, of a node that has as many such cards as it asks for. What a class
-- takes of a card, or may use, is not known: it is nobody's loss.
WITH
free AS (
    SELECT key_no, grain_us_at, grain_us_at // 86400000000 * 86400000000 AS day_us, amount_gpu_us AS free_gpu_us
    FROM dim.cost_booked
    WHERE account = 'idle' AND amount_gpu_us > 0
),

card AS (
    SELECT
        free.key_no, free.grain_us_at, free.day_us, site.cluster, site.node, site.memory_mib, site.model,
        CAST(CAST(free.free_gpu_us AS HUGEINT) * 1000000 // supply.supply_gpu_us AS BIGINT) AS free_ppm
    FROM free
    JOIN dim.cost_site AS site ON site.key_no = free.key_no AND site.place_kind = 'device' AND site.owner IS NULL
    JOIN (
        SELECT key_no, grain_us_at, CAST(sum(amount_gpu_us) AS BIGINT) AS supply_gpu_us FROM dim.cost_booked GROUP BY key_no, grain_us_at
    ) AS supply ON supply.key_no = free.key_no AND supply.grain_us_at = free.grain_us_at
    WHERE supply.supply_gpu_us > 0
),

-- What each class takes of each kind of card; NULL where it is not known.
need AS (
    SELECT
        class.day_us, class.class_no, class.cards_count, class.weight, kind.memory_mib, kind.model,
        CASE
            WHEN class.models IS NOT NULL AND kind.model IS NULL THEN NULL
            WHEN class.models IS NOT NULL
                AND len(list_filter(string_split_regex(class.models, '[|,]'), lambda words: list_has_all(model_words(kind.model), model_words(words)))) = 0
                THEN 1000001
            WHEN class.memory_mib IS NOT NULL AND kind.memory_mib IS NULL THEN NULL
            WHEN coalesce(class.share_ppm, class.memory_mib, class.cores_percent) IS NOT NULL THEN least(
                1000000,
                greatest(class.share_ppm, (class.memory_mib * 1000000 + kind.memory_mib - 1) // kind.memory_mib, class.cores_percent * 10000)
            )
        END AS need_ppm
    FROM dim.cost_class AS class
    CROSS JOIN (SELECT DISTINCT memory_mib, model FROM card) AS kind
),

fit AS (
    SELECT
        card.key_no, card.grain_us_at, card.cluster, card.node, need.class_no, need.cards_count, need.weight, need.need_ppm IS NULL AS unknown,
        coalesce(card.free_ppm >= need.need_ppm, FALSE) AS fits
    FROM card
    JOIN need ON need.day_us = card.day_us AND need.memory_mib IS NOT DISTINCT FROM card.memory_mib AND need.model IS NOT DISTINCT FROM card.model
),

able AS (
    SELECT
        *, count(*) FILTER (WHERE fits OR unknown) OVER (PARTITION BY cluster, node, grain_us_at, class_no) AS able_count
    FROM fit
)

SELECT
    key_no, grain_us_at, CAST(sum(weight) AS BIGINT) AS whole,
    CAST(coalesce(sum(weight) FILTER (WHERE NOT unknown AND NOT (fits AND able_count >= cards_count)), 0) AS BIGINT) AS lost
FROM able
GROUP BY key_no, grain_us_at
HAVING coalesce(sum(weight) FILTER (WHERE NOT unknown AND NOT (fits AND able_count >= cards_count)), 0) > 0
