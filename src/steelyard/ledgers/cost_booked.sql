-- The supply of each place and grain of the window as money looks at it: what is held and reserved is its pod's, what is down is out of service (with whoever held it), what is
-- free and not down is idle until cost_idle.sql has looked at it.
SELECT
    site.key_no, booked.grain_us_at, booked.account, booked.pod_uid, booked.unit_id, CAST(sum(booked.amount_gpu_us) AS BIGINT) AS amount_gpu_us
FROM (
    SELECT
        cluster, place_kind, place_id, node, epoch_us(grain_at) AS grain_us_at,
        CASE
            WHEN account IN ('held', 'held_unplaced') AND service = 'down' THEN 'out_of_service'
            WHEN account IN ('held', 'held_unplaced', 'reserved') THEN 'tenant'
            WHEN account = 'in_suspense' THEN 'overhead'
            WHEN account = 'unobserved' THEN 'unobserved'
            WHEN service = 'down' THEN 'out_of_service'
            ELSE 'idle'
        END AS account,
        pod_uid, unit_id, amount_gpu_us
    FROM ledger.supply
    WHERE grain_at >= make_timestamp(CAST($from_us AS BIGINT)) AND grain_at < make_timestamp(CAST($to_us AS BIGINT))
        AND account NOT IN ('supply', 'overcommitted') AND amount_gpu_us <> 0
) AS booked
JOIN dim.cost_site AS site
    ON site.cluster = booked.cluster AND site.place_kind = booked.place_kind AND site.place_id = booked.place_id AND site.node IS NOT DISTINCT FROM booked.node
GROUP BY site.key_no, booked.grain_us_at, booked.account, booked.pod_uid, booked.unit_id
HAVING sum(booked.amount_gpu_us) <> 0
