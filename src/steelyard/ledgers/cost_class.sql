-- The typical requests for cards by day of the window: those that are declared, else the most frequent ones of the 30 days before, as `fragmentation` takes them.
-- share_ppm, memory_mib, cores_percent: of each of cards_count cards; none of them: how much it takes is not known. models: words, one of which lists must occur.
WITH
day AS (
    SELECT unnest(range(CAST($from_us AS BIGINT) // 86400000000 * 86400000000, CAST($to_us AS BIGINT), 86400000000)) AS day_us
),

shaped AS (
    SELECT
        asked_hour_at, cards_count, requests_count, lower(model) AS models,
        coalesce(
            gpu_milli * 1000,
            CASE
                WHEN coalesce(memory_mib, 0) = 0 AND coalesce(cores_percent, 0) = 0 AND resource_names IS NOT NULL
                    AND regexp_full_match(resource_names, '[^/,]+/(gpu|npu|xpu|dcu|gcu|mlu)(,[^/,]+/(gpu|npu|xpu|dcu|gcu|mlu))*')
                    THEN 1000000
            END
        ) AS share_ppm,
        nullif(memory_mib, 0) AS memory_mib, nullif(cores_percent, 0) AS cores_percent
    FROM dim.request_class
    WHERE cards_count > 0 AND asked_hour_at < make_timestamp(CAST($to_us AS BIGINT))
        AND asked_hour_at >= make_timestamp(CAST($from_us AS BIGINT) - 31 * 86400000000)
),

counted AS (
    SELECT
        day.day_us, shaped.cards_count, shaped.share_ppm, shaped.memory_mib, shaped.cores_percent, shaped.models, CAST(sum(shaped.requests_count) AS BIGINT) AS weight
    FROM day
    JOIN shaped ON shaped.asked_hour_at < make_timestamp(day.day_us) AND shaped.asked_hour_at >= make_timestamp(day.day_us - 30 * 86400000000)
    WHERE NOT EXISTS (SELECT 1 FROM dim.declared_class)
    GROUP BY day.day_us, shaped.cards_count, shaped.share_ppm, shaped.memory_mib, shaped.cores_percent, shaped.models
),

reached AS (
    SELECT
        *, sum(weight) OVER (PARTITION BY day_us) AS whole,
        sum(weight) OVER (
            PARTITION BY day_us
            ORDER BY weight DESC, cards_count, share_ppm NULLS FIRST, memory_mib NULLS FIRST, cores_percent NULLS FIRST, models NULLS FIRST
            ROWS UNBOUNDED PRECEDING
        ) - weight AS before
    FROM counted
)

SELECT
    day_us, CAST(row_number() OVER (ORDER BY day_us, cards_count, share_ppm, memory_mib, cores_percent, models) AS BIGINT) AS class_no, cards_count, share_ppm, memory_mib,
    cores_percent, models, weight
FROM reached
WHERE before * 1000000 < whole * 950000
UNION ALL
SELECT
    day.day_us, declared.position, declared.cards_count, CASE WHEN declared.profile IS NULL THEN declared.share_ppm END,
    CASE WHEN declared.profile IS NULL THEN declared.memory_mib END, CASE WHEN declared.profile IS NULL THEN declared.cores_percent END,
    nullif(lower(declared.models), ''), declared.weight
FROM day
CROSS JOIN dim.declared_class AS declared
WHERE declared.cards_count > 0 AND declared.weight > 0
