-- The amounts of each place and grain of the window by account: what was booked, what is the platform's of a start taken off its holder, and what became of the free share.
WITH
held AS (
    SELECT
        booked.key_no, booked.grain_us_at, booked.account, booked.pod_uid, booked.unit_id, booked.amount_gpu_us,
        coalesce(
            CAST(CAST(booked.amount_gpu_us AS HUGEINT) * least(starting.starting_us, starting.held_us) // starting.held_us AS BIGINT), 0
        ) AS platform_gpu_us
    FROM dim.cost_booked AS booked
    LEFT JOIN dim.cost_starting AS starting
        ON booked.account = 'tenant' AND starting.key_no = booked.key_no AND starting.grain_us_at = booked.grain_us_at
        AND starting.pod_uid = booked.pod_uid AND starting.unit_id IS NOT DISTINCT FROM booked.unit_id
    WHERE booked.account <> 'idle'
)

SELECT key_no, grain_us_at, account, pod_uid, unit_id, CAST(NULL AS VARCHAR) AS owner, amount_gpu_us - platform_gpu_us AS amount_gpu_us
FROM held
WHERE amount_gpu_us <> platform_gpu_us
UNION ALL
SELECT key_no, grain_us_at, 'platform_start', pod_uid, unit_id, NULL, platform_gpu_us
FROM held
WHERE platform_gpu_us <> 0
UNION ALL
SELECT key_no, grain_us_at, account, NULL, NULL, owner, amount_gpu_us
FROM dim.cost_idle
