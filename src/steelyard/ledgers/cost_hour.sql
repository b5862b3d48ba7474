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
        (SELECT sum(part_no) FROM turned WHERE turned_us = -4611686018427387904) AS first_no
)

SELECT
    booked.hour_at, booked.hour_at + INTERVAL 1 HOUR > (SELECT as_of_at FROM parameter) AS is_open,
    CAST(hash(booked.part_no, used.part_no, rated.part_no, ground.place_no, ground.first_no) >> 1 AS BIGINT) AS ground_no
FROM booked
CROSS JOIN (SELECT profile_no FROM dim.price_rate LIMIT 1) AS priced
CROSS JOIN ground
LEFT JOIN used ON used.hour_at = booked.hour_at
LEFT JOIN rated ON rated.hour_at = booked.hour_at
