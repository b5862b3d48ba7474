-- Q9: what it cost, and what was asked for. Money and GPU-time come from the ledgers of cost and charge, in whole grains; where nothing has a price, GPU-time from supply.

-- name: grain
SELECT grain_us, weight_default_ppm FROM dim.parameter;

-- name: weights
SELECT
    model, weight_ppm,
    coalesce(epoch_us(valid_from_at), $from_us) AS from_us,
    coalesce(epoch_us(valid_to_at), $to_us) AS to_us
FROM dim.model_weight
ORDER BY position;

-- name: has_prices
SELECT EXISTS (SELECT 1 FROM ledger.cost) OR EXISTS (SELECT 1 FROM ledger.charge) AS has_prices;

-- name: span
SELECT epoch_us(min(grain_at)) AS first_us, epoch_us(max(grain_at)) AS last_us
FROM ledger.supply
WHERE grain_at >= make_timestamp($from_us)
    AND grain_at < make_timestamp($to_us);

-- name: cost_lines
SELECT
    cluster, place_kind, place_id, node, device_uuid, account, pod_uid, unit_id, owner, currency, unpriced_reason,
    sum(amount_gpu_us) AS amount_gpu_us,
    sum(cost_micro) AS cost_micro,
    sum(CASE WHEN provisional THEN cost_micro ELSE 0 END) AS provisional_micro,
    coalesce(sum(amount_gpu_us) FILTER (WHERE used_gpu_us IS NOT NULL), 0) AS pathed_gpu_us,
    coalesce(sum(used_gpu_us), 0) AS used_gpu_us,
    coalesce(sum(used_upper_gpu_us) FILTER (WHERE used_gpu_us IS NOT NULL), 0) AS used_upper_gpu_us,
    coalesce(sum(effective_micro(cost_micro, used_gpu_us, amount_gpu_us)), 0) AS effective_micro,
    sum(
        CASE WHEN used_gpu_us IS NULL THEN coalesce(cost_micro, 0) ELSE coalesce(effective_micro(cost_micro, used_upper_gpu_us, amount_gpu_us), 0) END
    ) AS effective_upper_micro
FROM ledger.cost
WHERE grain_at >= make_timestamp($from_us)
    AND grain_at < make_timestamp($to_us)
GROUP BY cluster, place_kind, place_id, node, device_uuid, account, pod_uid, unit_id, owner, currency, unpriced_reason;

-- name: supply_lines
-- The same without money: what is held and reserved is its pod's, what is down is out of service, what is free is idle.
WITH
booked AS (
    SELECT
        cluster, place_kind, place_id, node, device_uuid,
        CASE
            WHEN account IN ('held', 'held_unplaced') AND service = 'down' THEN 'out_of_service'
            WHEN account IN ('held', 'held_unplaced', 'reserved') THEN 'tenant'
            WHEN account = 'in_suspense' THEN 'overhead'
            WHEN account = 'unobserved' THEN 'unobserved'
            WHEN service = 'down' THEN 'out_of_service'
            ELSE 'idle'
        END AS account,
        pod_uid, sum(amount_gpu_us) AS amount_gpu_us
    FROM ledger.supply
    WHERE grain_at >= make_timestamp($from_us)
        AND grain_at < make_timestamp($to_us)
        AND account NOT IN ('supply', 'overcommitted')
    GROUP BY ALL
    HAVING sum(amount_gpu_us) <> 0
),

used AS (
    SELECT cluster, device_uuid, pod_uid, sum(used_gpu_us) AS used_gpu_us, sum(used_of_gpu_us) AS used_of_gpu_us
    FROM ledger.usage
    WHERE grain_at >= make_timestamp($from_us)
        AND grain_at < make_timestamp($to_us)
        AND pod_uid IS NOT NULL AND used_gpu_us IS NOT NULL AND path IN ('exclusive', 'mig')
    GROUP BY cluster, device_uuid, pod_uid
)

SELECT
    booked.cluster, booked.place_kind, booked.place_id, booked.node, booked.device_uuid, booked.account, booked.pod_uid, CAST(NULL AS VARCHAR) AS unit_id,
    CAST(NULL AS VARCHAR) AS owner, CAST(NULL AS VARCHAR) AS currency, CAST(NULL AS VARCHAR) AS unpriced_reason, booked.amount_gpu_us,
    CAST(NULL AS BIGINT) AS cost_micro, 0 AS provisional_micro,
    CASE WHEN used.pod_uid IS NULL THEN 0 ELSE booked.amount_gpu_us END AS pathed_gpu_us, coalesce(used.used_gpu_us, 0) AS used_gpu_us,
    coalesce(used.used_gpu_us + greatest(booked.amount_gpu_us - used.used_of_gpu_us, 0), 0) AS used_upper_gpu_us, 0 AS effective_micro,
    0 AS effective_upper_micro
FROM booked
LEFT JOIN used
    ON booked.account = 'tenant' AND used.cluster = booked.cluster AND used.device_uuid = booked.device_uuid AND used.pod_uid = booked.pod_uid;

-- name: charge_lines
SELECT
    cluster, place_kind, place_id, node, device_uuid, pod_uid, unit_id, tenant, line, currency, unpriced_reason,
    sum(quantity_gpu_us) AS quantity_gpu_us, sum(list_micro) AS list_micro, sum(discount_micro) AS discount_micro, sum(charge_micro) AS charge_micro
FROM ledger.charge
WHERE grain_at >= make_timestamp($from_us)
    AND grain_at < make_timestamp($to_us)
GROUP BY cluster, place_kind, place_id, node, device_uuid, pod_uid, unit_id, tenant, line, currency, unpriced_reason;

-- name: whole_cards
-- What a meter that knows no fractions would count: every card that somebody holds a part of, whole, for each holder; a pod with two slices of a card once.
WITH
held AS (
    SELECT
        cluster, place_kind, place_id, node, device_uuid, pod_uid,
        CASE
            WHEN coalesce(share_ppm, share_at_least_ppm, 0) <= 1000000000000
                THEN greatest(1, (coalesce(share_ppm, share_at_least_ppm, 0) + 999999) // 1000000)
            ELSE 1
        END AS cards_count,
        greatest(epoch_us(started_at), $from_us) AS start_us,
        least(epoch_us(coalesce(ended_at, known_to_at)), $to_us) AS end_us
    FROM ledger.holding
    WHERE occupancy = 'held'
        AND started_at < make_timestamp($to_us)
        AND coalesce(ended_at, known_to_at) > make_timestamp($from_us)
        AND coalesce(ended_at, known_to_at) > started_at
),

reached AS (
    SELECT
        *,
        max(end_us) OVER (
            PARTITION BY cluster, place_kind, place_id, pod_uid ORDER BY start_us, end_us ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS reach_us
    FROM held
)

SELECT
    cluster, place_kind, place_id, node, device_uuid, pod_uid,
    sum(
        CASE
            WHEN place_kind = 'device' THEN greatest(0, end_us - greatest(start_us, coalesce(reach_us, start_us)))
            ELSE CAST(end_us - start_us AS HUGEINT) * cards_count
        END
    ) AS card_us
FROM reached
GROUP BY cluster, place_kind, place_id, node, device_uuid, pod_uid;

-- name: places
SELECT cluster, place_kind, place_id, node, model, unit_kind, commitment FROM dim.cost_place;

-- name: unit_kinds
SELECT cluster, pod_uid, place_id, unit_id, min(unit_kind) AS unit_kind
FROM ledger.holding
WHERE started_at < make_timestamp($to_us)
    AND coalesce(ended_at, known_to_at) > make_timestamp($from_us)
GROUP BY cluster, pod_uid, place_id, unit_id;

-- name: tree_edges
SELECT DISTINCT unnest([from_us, to_us]) AS at_us FROM dim.tenancy_pod;

-- name: belonging
-- Where each pod stands in the tenancy tree at an instant.
SELECT cluster, pod_uid, department, team, project, cost_centre
FROM dim.tenancy_pod
WHERE from_us <= $at_us AND to_us > $at_us;

-- name: holders
-- The pods that hold anything in the window.
SELECT
    cluster, pod_uid, namespace, pod, node, phase, tenant, workload_kind, workload_name, queue, qos, scheduler
FROM dim.pod
WHERE (cluster, pod_uid) IN (
    SELECT (cluster, pod_uid)
    FROM ledger.holding
    WHERE started_at < make_timestamp($to_us)
        AND coalesce(ended_at, known_to_at) >= make_timestamp($from_us)
);

-- name: persons
SELECT member.cluster, member.pod_uid, min(demand.person) AS person
FROM dim.demand_pod AS member
JOIN dim.demand AS demand ON demand.cluster = member.cluster AND demand.demand_id = member.demand_id
WHERE demand.person IS NOT NULL
GROUP BY member.cluster, member.pod_uid;

-- name: devices
SELECT cluster, device_uuid, node, device_index, vendor, model, memory_mib
FROM dim.device
QUALIFY row_number() OVER (PARTITION BY cluster, device_uuid ORDER BY valid_from_at DESC NULLS LAST, node) = 1;

-- name: nodes
SELECT cluster, node, gpu_product AS model FROM dim.node;

-- name: counted_cards
SELECT cluster, node, cards_count, memory_mib, from_us, to_us
FROM dim.node_capacity
ORDER BY cluster, node, from_us;

-- name: policy
SELECT idle_sharing, decode_ppm, cached_ppm, change_days, change_days_least, change_ratio_ppm, change_least_micro FROM dim.money_policy;

-- name: cost_residual
-- By how much the accounts of a place and grain miss its supply, and their money the price of that supply, computed anew from the price lines; absolute, summed.
WITH
booked AS (
    SELECT
        cluster, place_kind, place_id, node, grain_at, sum(amount_gpu_us) AS amount_gpu_us, sum(cost_micro) AS cost_micro,
        bool_or(cost_micro IS NULL) AS is_unpriced
    FROM ledger.cost
    WHERE grain_at >= make_timestamp($from_us) AND grain_at < make_timestamp($to_us)
    GROUP BY cluster, place_kind, place_id, node, grain_at
),

supplied AS (
    SELECT cluster, place_kind, place_id, node, grain_at, sum(amount_gpu_us) AS amount_gpu_us
    FROM ledger.supply
    WHERE account = 'supply' AND grain_at >= make_timestamp($from_us) AND grain_at < make_timestamp($to_us)
    GROUP BY cluster, place_kind, place_id, node, grain_at
),

priced AS (
    SELECT
        part.profile_no, grain.grain_at,
        sum(grain_price_micro(part.price_micro, part.per, epoch_us(grain.grain_at), parameter.grain_us)) AS price_micro
    FROM (SELECT DISTINCT grain_at FROM booked) AS grain
    CROSS JOIN (SELECT grain_us FROM dim.parameter) AS parameter
    JOIN dim.price_part AS part ON part.from_us <= epoch_us(grain.grain_at) AND part.to_us > epoch_us(grain.grain_at)
    GROUP BY part.profile_no, grain.grain_at
),

both_sides AS (
    SELECT
        coalesce(supplied.amount_gpu_us, 0) AS supply_gpu_us, coalesce(booked.amount_gpu_us, 0) AS accounts_gpu_us, booked.cost_micro, booked.is_unpriced,
        part_micro(priced.price_micro, coalesce(supplied.amount_gpu_us, 0), parameter.grain_us) AS supply_micro
    FROM booked
    FULL JOIN supplied
        ON supplied.cluster = booked.cluster AND supplied.place_kind = booked.place_kind AND supplied.place_id = booked.place_id
        AND supplied.node IS NOT DISTINCT FROM booked.node AND supplied.grain_at = booked.grain_at
    CROSS JOIN (SELECT grain_us FROM dim.parameter) AS parameter
    LEFT JOIN dim.cost_place AS place
        ON place.cluster = booked.cluster AND place.place_kind = booked.place_kind AND place.place_id = booked.place_id
        AND place.node IS NOT DISTINCT FROM booked.node
    LEFT JOIN dim.price_profile AS profile
        ON profile.side = 'cost' AND profile.cluster = place.cluster AND profile.model IS NOT DISTINCT FROM place.model
        AND profile.unit_kind = place.unit_kind AND profile.commitment IS NOT DISTINCT FROM place.commitment
    LEFT JOIN priced ON priced.profile_no = profile.profile_no AND priced.grain_at = booked.grain_at
)

SELECT
    coalesce(sum(abs(supply_gpu_us - accounts_gpu_us)), 0) AS residual_gpu_us,
    coalesce(sum(abs(supply_micro - cost_micro)) FILTER (WHERE NOT is_unpriced), 0) AS residual_micro
FROM both_sides;
