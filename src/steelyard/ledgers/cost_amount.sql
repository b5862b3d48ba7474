-- The supply of each place and grain of the window by account, before money: what is held and reserved is its pod's, what is down is out of service (with whoever held it),
-- what is free is idle, or its owner's where the node is dedicated.
WITH
place AS (
    SELECT key.key_no, profile.profile_no, place.owner, place.cluster, place.place_kind, place.place_id, place.node
    FROM dim.cost_place AS place
    JOIN dim.price_profile AS profile
        ON profile.side = 'cost' AND profile.cluster = place.cluster AND profile.model IS NOT DISTINCT FROM place.model
        AND profile.unit_kind = place.unit_kind AND profile.commitment IS NOT DISTINCT FROM place.commitment
    JOIN dim.cost_key AS key
        ON key.cluster = place.cluster AND key.place_kind = place.place_kind AND key.place_id = place.place_id
        AND key.node IS NOT DISTINCT FROM place.node
),

booked AS (
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
        pod_uid, unit_id, CAST(sum(amount_gpu_us) AS BIGINT) AS amount_gpu_us
    FROM ledger.supply
    WHERE grain_at >= make_timestamp(CAST($from_us AS BIGINT)) AND grain_at < make_timestamp(CAST($to_us AS BIGINT))
        AND account NOT IN ('supply', 'overcommitted')
    GROUP BY ALL
    HAVING sum(amount_gpu_us) <> 0
)

SELECT
    place.key_no, place.profile_no, booked.grain_us_at,
    CASE WHEN booked.account = 'idle' AND place.owner IS NOT NULL THEN 'reserved_unused' ELSE booked.account END AS account,
    booked.pod_uid, booked.unit_id, CASE WHEN booked.account = 'idle' THEN place.owner END AS owner, booked.amount_gpu_us
FROM booked
JOIN place
    ON place.cluster = booked.cluster AND place.place_kind = booked.place_kind AND place.place_id = booked.place_id
    AND place.node IS NOT DISTINCT FROM booked.node
