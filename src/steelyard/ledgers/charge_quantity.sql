-- What is asked for in each grain of the window by holder: declared share x time from the charge start, floored once per holder and grain; apart from it the part of that time in
-- which it was down. A share that is not known counts its least, and has no price. Beside it, where the policy says so, what a pod used of compute
-- above its grant (`burst`), as the ledger of excess has it, and what owners left unused of capacity that is kept for them (`reserved_unused`), as the cost ledger has it.
WITH
place AS (
    SELECT key.key_no, place.*
    FROM dim.cost_place AS place
    JOIN dim.charge_key AS key
        ON key.cluster = place.cluster AND key.place_kind = place.place_kind AND key.place_id = place.place_id AND key.node IS NOT DISTINCT FROM place.node
),

holder AS (
    SELECT
        holder.holder_no, key.key_no, profile.profile_no, holder.cluster, holder.place_kind, holder.place_id, holder.pod_uid, holder.unit_id,
        coalesce(holder.share_ppm, holder.share_at_least_ppm) AS share_ppm, holder.share_ppm IS NULL AS share_unknown, holder.tenant,
        greatest(holder.from_us, CAST($from_us AS BIGINT)) AS lo, least(holder.to_us, CAST($to_us AS BIGINT)) AS hi
    FROM dim.charge_holder AS holder
    JOIN dim.price_profile AS profile
        ON profile.side = 'charge' AND profile.cluster = holder.cluster AND profile.model IS NOT DISTINCT FROM holder.model
        AND profile.unit_kind IS NOT DISTINCT FROM holder.unit_kind AND profile.commitment IS NOT DISTINCT FROM holder.commitment
        AND profile.tenant IS NOT DISTINCT FROM holder.priced_tenant
    JOIN place AS key
        ON key.cluster = holder.cluster AND key.place_kind = holder.place_kind AND key.place_id = holder.place_id
        AND key.node IS NOT DISTINCT FROM holder.node
    WHERE holder.from_us < CAST($to_us AS BIGINT) AND holder.to_us > CAST($from_us AS BIGINT) AND holder.to_us > holder.from_us
),

part AS (
    SELECT
        holder_no, key_no, profile_no, pod_uid, unit_id, share_ppm, share_unknown, tenant, grain_us_at,
        greatest(lo, grain_us_at) AS lo, least(hi, grain_us_at + grain_us) AS hi, cluster, place_kind, place_id
    FROM (
        SELECT holder.*, parameter.grain_us, unnest(range(grain_start_us(holder.lo, parameter.grain_us), holder.hi, parameter.grain_us)) AS grain_us_at
        FROM holder
        CROSS JOIN (SELECT grain_us FROM dim.parameter) AS parameter
    ) AS cut
),

down AS (
    SELECT part.holder_no, part.grain_us_at, CAST(sum(least(part.hi, down.to_us) - greatest(part.lo, down.from_us)) AS BIGINT) AS down_us
    FROM part
    JOIN dim.charge_down AS down
        ON down.cluster = part.cluster AND down.place_kind = part.place_kind AND down.place_id = part.place_id AND down.pod_uid = part.pod_uid
        AND down.unit_id IS NOT DISTINCT FROM part.unit_id AND down.from_us < part.hi AND down.to_us > part.lo
    GROUP BY part.holder_no, part.grain_us_at
),

timed AS (
    SELECT part.*, part.hi - part.lo AS length_us, coalesce(down.down_us, 0) AS down_us
    FROM part
    LEFT JOIN down ON down.holder_no = part.holder_no AND down.grain_us_at = part.grain_us_at
)

SELECT key_no, profile_no, pod_uid, unit_id, tenant, share_unknown, grain_us_at, 'grant' AS line, gpu_time_us(length_us - down_us, share_ppm) AS quantity_gpu_us
FROM timed
WHERE length_us > down_us
UNION ALL
SELECT key_no, profile_no, pod_uid, unit_id, tenant, share_unknown, grain_us_at, 'held_down', gpu_time_us(down_us, share_ppm)
FROM timed
WHERE down_us > 0
UNION ALL
SELECT
    place.key_no, profile.profile_no, over.pod_uid, holder.unit_id, holder.tenant, FALSE, epoch_us(over.grain_at), 'burst', over.excess_gpu_us
FROM (
    SELECT cluster, device_uuid, pod_uid, grain_at, CAST(sum(excess_gpu_us) AS BIGINT) AS excess_gpu_us
    FROM ledger.excess
    WHERE rule = 'compute' AND grain_at >= make_timestamp(CAST($from_us AS BIGINT)) AND grain_at < make_timestamp(CAST($to_us AS BIGINT))
    GROUP BY cluster, device_uuid, pod_uid, grain_at
) AS over
JOIN dim.money_policy AS policy ON policy.burst = 'charged'
JOIN (
    SELECT
        cluster, place_id, pod_uid, min(node) AS node, min(unit_id) AS unit_id, min(unit_kind) AS unit_kind, min(tenant) AS tenant, min(priced_tenant) AS priced_tenant
    FROM dim.charge_holder
    WHERE place_kind = 'device'
    GROUP BY cluster, place_id, pod_uid
) AS holder ON holder.cluster = over.cluster AND holder.place_id = over.device_uuid AND holder.pod_uid = over.pod_uid
JOIN place
    ON place.cluster = over.cluster AND place.place_kind = 'device' AND place.place_id = over.device_uuid AND place.node IS NOT DISTINCT FROM holder.node
JOIN dim.price_profile AS profile
    ON profile.side = 'charge' AND profile.cluster = place.cluster AND profile.model IS NOT DISTINCT FROM place.model
    AND profile.unit_kind IS NOT DISTINCT FROM holder.unit_kind AND profile.commitment IS NOT DISTINCT FROM place.commitment
    AND profile.tenant IS NOT DISTINCT FROM holder.priced_tenant
UNION ALL
SELECT
    place.key_no, profile.profile_no, NULL, NULL, booked.owner, FALSE, epoch_us(booked.grain_at), 'reserved_unused', booked.amount_gpu_us
FROM ledger.cost AS booked
JOIN dim.money_policy AS policy ON policy.reserved_unused = 'charged'
JOIN place
    ON place.cluster = booked.cluster AND place.place_kind = booked.place_kind AND place.place_id = booked.place_id AND place.node IS NOT DISTINCT FROM booked.node
LEFT JOIN (
    SELECT tenant FROM dim.price_line WHERE tenant IS NOT NULL
    UNION
    SELECT tenant FROM dim.discount_line
) AS named ON named.tenant = booked.owner
JOIN dim.price_profile AS profile
    ON profile.side = 'charge' AND profile.cluster = place.cluster AND profile.model IS NOT DISTINCT FROM place.model AND profile.unit_kind = 'gpu'
    AND profile.commitment IS NOT DISTINCT FROM place.commitment AND profile.tenant IS NOT DISTINCT FROM named.tenant
WHERE booked.account = 'reserved_unused' AND booked.grain_at >= make_timestamp(CAST($from_us AS BIGINT)) AND booked.grain_at < make_timestamp(CAST($to_us AS BIGINT))
