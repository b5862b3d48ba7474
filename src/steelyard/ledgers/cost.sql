-- What every place cost in each grain, divided among accounts, exact in integers (see cost.py). The price of the grain is divided by amounts, floored; what flooring leaves
-- of a place and grain goes one by one to the largest remainders (ties: account, pod_uid, unit_id, owner). Most places leave nothing: only the others are ranked.
WITH
parameter AS (
    SELECT grain_us FROM dim.parameter
),

floored AS (
    SELECT
        amount.key_no, amount.grain_us_at, amount.account, amount.pod_uid, amount.unit_id, amount.owner, amount.amount_gpu_us,
        price.currency, price.price_id, price.provisional, price.unpriced_reason, price.price_micro, parameter.grain_us,
        part_micro(price.price_micro, amount.amount_gpu_us, parameter.grain_us) AS part_micro,
        rest_gpu_us(price.price_micro, amount.amount_gpu_us, parameter.grain_us) AS rest_us
    FROM dim.cost_amount AS amount
    CROSS JOIN parameter
    JOIN dim.cost_site AS site ON site.key_no = amount.key_no
    JOIN dim.money_price AS price ON price.profile_no = site.profile_no AND price.grain_us_at = amount.grain_us_at
),

left_over AS (
    SELECT key_no, grain_us_at, CAST(sum(rest_us) // any_value(grain_us) AS BIGINT) AS left_micro
    FROM floored
    WHERE rest_us > 0
    GROUP BY key_no, grain_us_at
    HAVING sum(rest_us) >= any_value(grain_us)
),

ranked AS (
    SELECT floored.key_no, floored.grain_us_at, floored.account, floored.pod_uid, floored.unit_id, floored.owner
    FROM floored
    JOIN left_over ON left_over.key_no = floored.key_no AND left_over.grain_us_at = floored.grain_us_at
    WHERE floored.rest_us > 0
    QUALIFY row_number() OVER (
        PARTITION BY floored.key_no, floored.grain_us_at
        ORDER BY floored.rest_us DESC, floored.account, floored.pod_uid, floored.unit_id, floored.owner
    ) <= left_over.left_micro
)

SELECT
    floored.key_no, make_timestamp(floored.grain_us_at) AS grain_at, floored.account, floored.pod_uid, floored.unit_id, floored.owner, floored.amount_gpu_us,
    used.used_gpu_us, used_upper_gpu_us(used.used_gpu_us, floored.amount_gpu_us, used.seen_us, used.held_us) AS used_upper_gpu_us, used.path AS used_path,
    floored.currency,
    floored.part_micro + CASE WHEN ranked.key_no IS NULL THEN 0 ELSE 1 END AS cost_micro,
    floored.price_id, floored.provisional, floored.unpriced_reason
FROM floored
LEFT JOIN ranked
    ON ranked.key_no = floored.key_no AND ranked.grain_us_at = floored.grain_us_at AND ranked.account = floored.account
    AND ranked.pod_uid IS NOT DISTINCT FROM floored.pod_uid AND ranked.unit_id IS NOT DISTINCT FROM floored.unit_id
    AND ranked.owner IS NOT DISTINCT FROM floored.owner
LEFT JOIN dim.cost_used AS used
    ON floored.account = 'tenant' AND used.key_no = floored.key_no AND used.grain_us_at = floored.grain_us_at AND used.pod_uid = floored.pod_uid
    AND used.unit_id IS NOT DISTINCT FROM floored.unit_id
