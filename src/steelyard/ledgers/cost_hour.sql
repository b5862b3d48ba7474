-- What the money of each hour is computed from, as one number: its supply, what was used in it, and what its cards are priced by. An hour whose number is as it was when
-- it was last posted need not be computed again (see windows.py). Nothing where no price is in force.
WITH
parameter AS (
    SELECT as_of_at FROM dim.parameter
),

booked AS (
    SELECT
        date_trunc('hour', grain_at) AS hour_at,
        sum(CAST(hash(cluster, place_kind, place_id, node, grain_at, account, service, pod_uid, unit_id, amount_gpu_us) AS HUGEINT)) AS part_no
    FROM ledger.supply
    WHERE account NOT IN ('supply', 'overcommitted')
    GROUP BY date_trunc('hour', grain_at)
),

used AS (
    SELECT
        date_trunc('hour', grain_at) AS hour_at,
        sum(CAST(hash(cluster, device_uuid, gi, grain_at, pod_uid, path, used_gpu_us, used_observed_us) AS HUGEINT)) AS part_no
    FROM ledger.usage
    WHERE pod_uid IS NOT NULL AND used_gpu_us IS NOT NULL
    GROUP BY date_trunc('hour', grain_at)
),

-- What strands the free share, and what is kept for owners, hour by hour.
full_card AS (
    SELECT
        date_trunc('hour', grain_at) AS hour_at, sum(CAST(hash(cluster, place_id, grain_at, pod_uid, unit_id, state, amount_gpu_us) AS HUGEINT)) AS part_no
    FROM ledger.gpu_state
    WHERE spent_as(state, cause) IS NOT NULL
    GROUP BY date_trunc('hour', grain_at)
),

kept AS (
    SELECT
        date_trunc('hour', grain_at) AS hour_at,
        sum(
            CAST(
                hash(cluster, queue_kind, queue, namespace, flavor, resource, grain_at, nominal_milli_us, used_milli_us, borrowed_milli_us) AS HUGEINT
            )
        ) AS part_no
    FROM ledger.quota
    GROUP BY date_trunc('hour', grain_at)
),

asked_on AS (
    SELECT
        date_trunc('day', asked_hour_at) AS day_at,
        sum(CAST(hash(cards_count, gpu_milli, memory_mib, cores_percent, resource_names, model) AS HUGEINT) * requests_count) AS part_no
    FROM dim.request_class
    WHERE cards_count > 0
    GROUP BY date_trunc('day', asked_hour_at)
),

typical AS (
    SELECT day.day_at, sum(asked_on.part_no) AS part_no
    FROM (SELECT DISTINCT date_trunc('day', hour_at) AS day_at FROM booked) AS day
    JOIN asked_on ON asked_on.day_at < day.day_at AND asked_on.day_at >= day.day_at - INTERVAL 30 DAY
    GROUP BY day.day_at
),

-- Starts that the platform answers for.
starting AS (
    SELECT hour_at, sum(part_no) AS part_no
    FROM (
        SELECT
            unnest(generate_series(date_trunc('hour', make_timestamp(bound_us)), make_timestamp(end_us - 1), INTERVAL 1 HOUR)) AS hour_at,
            CAST(hash(cluster, place_kind, place_id, pod_uid, unit_id, bound_us, starting_from_us, starting_to_us) AS HUGEINT) AS part_no
        FROM dim.money_holder
        WHERE starting_from_us IS NOT NULL
    ) AS cut
    GROUP BY hour_at
),

-- Rates by the turns at which any of them changes: the sum of all that turned up to an hour tells its rates.
turned AS (
    SELECT turned_us, sum(part_no) AS part_no
    FROM (
        SELECT
            rate.from_us AS turned_us,
            CAST(
                hash(
                    profile.cluster, profile.model, profile.unit_kind, profile.commitment, profile.tenant, rate.price_id, rate.currency, rate.provisional,
                    rate.unpriced_reason, part.price_no, rate.from_us
                ) AS HUGEINT
            ) AS part_no
        FROM dim.price_rate AS rate
        JOIN dim.price_profile AS profile ON profile.profile_no = rate.profile_no AND profile.side = 'cost'
        LEFT JOIN (
            SELECT profile_no, from_us, to_us, sum(CAST(hash(component, price_micro, per) AS HUGEINT)) AS price_no
            FROM dim.price_part
            GROUP BY profile_no, from_us, to_us
        ) AS part ON part.profile_no = rate.profile_no AND part.from_us <= rate.from_us AND part.to_us >= rate.to_us
    ) AS turn
    GROUP BY turned_us
),

rated AS (
    SELECT booked.hour_at, sum(turned.part_no) AS part_no
    FROM booked
    JOIN (SELECT turned_us, part_no FROM turned WHERE turned_us > -4611686018427387904) AS turned ON turned.turned_us < epoch_us(booked.hour_at) + 3600000000
    GROUP BY booked.hour_at
),

-- What holds for all hours.
ground AS (
    SELECT
        (SELECT sum(CAST(hash(cluster, place_kind, place_id, node, model, unit_kind, commitment, owner) AS HUGEINT)) FROM dim.cost_place) AS place_no,
        (SELECT sum(part_no) FROM turned WHERE turned_us = -4611686018427387904) AS first_no,
        (SELECT sum(CAST(hash(cluster, queue_kind, queue, namespace, owner) AS HUGEINT)) FROM dim.cost_owner) AS owner_no
)

SELECT
    booked.hour_at, booked.hour_at + INTERVAL 1 HOUR > (SELECT as_of_at FROM parameter) AS is_open,
    CAST(hash(
            booked.part_no, used.part_no, full_card.part_no, kept.part_no, typical.part_no, starting.part_no, rated.part_no, ground.place_no, ground.first_no,
            ground.owner_no
        ) >> 1 AS BIGINT) AS ground_no
FROM booked
CROSS JOIN (SELECT profile_no FROM dim.price_rate LIMIT 1) AS priced
CROSS JOIN ground
LEFT JOIN used ON used.hour_at = booked.hour_at
LEFT JOIN rated ON rated.hour_at = booked.hour_at
LEFT JOIN full_card ON full_card.hour_at = booked.hour_at
LEFT JOIN kept ON kept.hour_at = booked.hour_at
LEFT JOIN typical ON typical.day_at = date_trunc('day', booked.hour_at)
LEFT JOIN starting ON starting.hour_at = booked.hour_at
