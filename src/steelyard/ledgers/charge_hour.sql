-- What the charges of each hour are computed from, as one number: who is asked for which share in it, when each was down, what was used above a share, and what
-- holders are priced by. An hour whose number is as it was when it was last posted need not be computed again (see windows.py).
WITH
parameter AS (
    SELECT as_of_at FROM dim.parameter
),

held AS (
    SELECT
        unnest(generate_series(date_trunc('hour', make_timestamp(from_us)), make_timestamp(to_us - 1), INTERVAL 1 HOUR)) AS hour_at, holder.*
    FROM dim.charge_holder AS holder
    WHERE holder.to_us > holder.from_us
),

held_no AS (
    SELECT
        hour_at,
        sum(
            CAST(
                hash(
                    cluster, place_kind, place_id, node, pod_uid, unit_id, unit_kind, tenant, share_ppm, share_at_least_ppm, model, commitment,
                    greatest(from_us, epoch_us(hour_at)), least(to_us, epoch_us(hour_at) + 3600000000)
                ) AS HUGEINT
            )
        ) AS part_no
    FROM held
    GROUP BY hour_at
),

down AS (
    SELECT hour_at, sum(part_no) AS part_no
    FROM (
        SELECT
            unnest(generate_series(date_trunc('hour', make_timestamp(from_us)), make_timestamp(to_us - 1), INTERVAL 1 HOUR)) AS hour_at,
            CAST(hash(cluster, place_kind, place_id, pod_uid, unit_id, from_us, to_us) AS HUGEINT) AS part_no
        FROM dim.charge_down
    ) AS cut
    GROUP BY hour_at
),

-- What is added to it by policy.
added AS (
    SELECT hour_at, sum(part_no) AS part_no
    FROM (
        SELECT
            date_trunc('hour', booked.grain_at) AS hour_at,
            CAST(
                hash(booked.cluster, booked.place_kind, booked.place_id, booked.node, booked.grain_at, booked.owner, booked.amount_gpu_us) AS HUGEINT
            ) AS part_no
        FROM ledger.cost AS booked
        JOIN dim.money_policy AS policy ON policy.reserved_unused = 'charged' AND booked.account = 'reserved_unused'
        UNION ALL
        SELECT
            date_trunc('hour', over.grain_at), CAST(hash(over.cluster, over.device_uuid, over.pod_uid, over.grain_at, over.excess_gpu_us) AS HUGEINT)
        FROM ledger.excess AS over
        JOIN dim.money_policy AS policy ON policy.burst = 'charged' AND over.rule = 'compute'
    ) AS cut
    GROUP BY hour_at
),

every_hour AS (
    SELECT hour_at FROM held_no
    UNION
    SELECT hour_at FROM added
),

turned AS (
    SELECT turned_us, sum(part_no) AS part_no
    FROM (
        SELECT
            rate.from_us AS turned_us,
            CAST(
                hash(
                    profile.cluster, profile.model, profile.unit_kind, profile.commitment, profile.tenant, rate.price_id, rate.currency, rate.provisional,
                    rate.discount_ppm, rate.unpriced_reason, part.price_no, rate.from_us
                ) AS HUGEINT
            ) AS part_no
        FROM dim.price_rate AS rate
        JOIN dim.price_profile AS profile ON profile.profile_no = rate.profile_no AND profile.side = 'charge'
        LEFT JOIN (
            SELECT profile_no, from_us, to_us, sum(CAST(hash(component, price_micro, per) AS HUGEINT)) AS price_no
            FROM dim.price_part
            GROUP BY profile_no, from_us, to_us
        ) AS part ON part.profile_no = rate.profile_no AND part.from_us <= rate.from_us AND part.to_us >= rate.to_us
    ) AS turn
    GROUP BY turned_us
),

rated AS (
    SELECT every_hour.hour_at, sum(turned.part_no) AS part_no
    FROM every_hour
    JOIN turned ON turned.turned_us < epoch_us(every_hour.hour_at) + 3600000000
    GROUP BY every_hour.hour_at
)

SELECT
    every_hour.hour_at, every_hour.hour_at + INTERVAL 1 HOUR > (SELECT as_of_at FROM parameter) AS is_open,
    CAST(hash(held_no.part_no, down.part_no, added.part_no, rated.part_no) >> 1 AS BIGINT) AS ground_no
FROM every_hour
JOIN rated ON rated.hour_at = every_hour.hour_at
LEFT JOIN held_no ON held_no.hour_at = every_hour.hour_at
LEFT JOIN down ON down.hour_at = every_hour.hour_at
LEFT JOIN added ON added.hour_at = every_hour.hour_at
