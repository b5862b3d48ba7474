-- What tenants are asked for in each grain: declared share x price, independent of neighbours, each row rounded by itself, half up (see charge.py).
WITH
summed AS (
    SELECT
        key_no, profile_no, pod_uid, unit_id, tenant, line, grain_us_at, bool_or(share_unknown) AS share_unknown,
        CAST(sum(quantity_gpu_us) AS BIGINT) AS quantity_gpu_us
    FROM dim.charge_quantity
    GROUP BY key_no, profile_no, pod_uid, unit_id, tenant, line, grain_us_at
),

listed AS (
    SELECT
        summed.*, price.currency, price.price_id, price.provisional, price.discount_ppm,
        coalesce(CASE WHEN summed.share_unknown THEN 'share unknown' END, price.unpriced_reason) AS unpriced_reason,
        CASE
            WHEN summed.share_unknown THEN NULL
            WHEN summed.line = 'held_down' THEN price.price_micro * 0
            ELSE list_micro(price.price_micro, summed.quantity_gpu_us, parameter.grain_us)
        END AS list_micro
    FROM summed
    CROSS JOIN (SELECT grain_us FROM dim.parameter) AS parameter
    JOIN dim.money_price AS price ON price.profile_no = summed.profile_no AND price.grain_us_at = summed.grain_us_at
)

SELECT
    key_no, make_timestamp(grain_us_at) AS grain_at, pod_uid, unit_id, tenant, line, quantity_gpu_us, currency, list_micro,
    discount_micro(list_micro, discount_ppm) AS discount_micro, list_micro - discount_micro(list_micro, discount_ppm) AS charge_micro, price_id, provisional,
    unpriced_reason
FROM listed
WHERE quantity_gpu_us > 0
