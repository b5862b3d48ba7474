-- What one whole card costs in each grain of the window, by profile: the sum of its components' grains. The rate that holds at a grain's start is that of the grain.
-- price_micro NULL: unpriced_reason says why.
WITH
grain AS (
    SELECT grain_us, unnest(range(CAST($from_us AS BIGINT), CAST($to_us AS BIGINT), grain_us)) AS grain_us_at
    FROM dim.parameter
),

standing AS (
    SELECT rate.profile_no, rate.from_us, rate.price_id, rate.currency, rate.provisional, rate.discount_ppm, rate.unpriced_reason, grain.grain_us_at, grain.grain_us
    FROM dim.price_rate AS rate
    JOIN grain ON grain.grain_us_at >= rate.from_us AND grain.grain_us_at < rate.to_us
)

SELECT
    standing.profile_no, standing.grain_us_at, standing.price_id, standing.currency, standing.provisional, standing.discount_ppm, standing.unpriced_reason,
    CASE
        WHEN standing.unpriced_reason IS NULL
            THEN CAST(sum(grain_price_micro(part.price_micro, part.per, standing.grain_us_at, standing.grain_us)) AS BIGINT)
    END AS price_micro
FROM standing
LEFT JOIN dim.price_part AS part
    ON part.profile_no = standing.profile_no AND part.from_us <= standing.grain_us_at AND part.to_us > standing.grain_us_at
GROUP BY
    standing.profile_no, standing.grain_us_at, standing.price_id, standing.currency, standing.provisional, standing.discount_ppm, standing.unpriced_reason
