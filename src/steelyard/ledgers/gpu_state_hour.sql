-- What the states of each hour are computed from, as one number: its supply, the turns within it, how many samples there are, suspected hangs, requests
-- that wait, and what all of them are read with. An hour whose number is as it was when it was last posted need not be computed again (see windows.py).
WITH
parameter AS (
    SELECT history_from_at, horizon_at, as_of_at FROM dim.parameter
),

booked AS (
    SELECT
        date_trunc('hour', grain_at) AS hour_at,
        sum(CAST(hash(cluster, place_kind, place_id, node, grain_at, account, service, pod_uid, unit_id, amount_gpu_us) AS HUGEINT)) AS part_no
    FROM ledger.supply
    WHERE account NOT IN ('supply', 'overcommitted')
    GROUP BY date_trunc('hour', grain_at)
),

sampled_beside AS (
    SELECT hour_at, sum(part_no) AS part_no
    FROM (
        SELECT date_trunc('hour', occurred_at) AS hour_at, count(*) AS part_no
        FROM fact.partition_sample
        WHERE occurred_at BETWEEN (SELECT history_from_at FROM parameter) AND (SELECT horizon_at FROM parameter)
        GROUP BY date_trunc('hour', occurred_at)
        UNION ALL
        SELECT date_trunc('hour', occurred_at), count(*) * 1000003
        FROM fact.process_sample
        WHERE occurred_at BETWEEN (SELECT history_from_at FROM parameter) AND (SELECT horizon_at FROM parameter)
        GROUP BY date_trunc('hour', occurred_at)
        UNION ALL
        SELECT date_trunc('hour', occurred_at), count(*) * 1000000007
        FROM fact.metric_sample
        WHERE family IN ('engine', 'host') AND occurred_at BETWEEN (SELECT history_from_at FROM parameter) AND (SELECT horizon_at FROM parameter)
        GROUP BY date_trunc('hour', occurred_at)
    ) AS counted
    GROUP BY hour_at
),

-- Hours in which a process is told by the name of its pod, and whose names those are.
named_hour AS (
    SELECT DISTINCT date_trunc('hour', occurred_at) AS hour_at
    FROM fact.process_sample
    WHERE starts_with(pod_uid, 'name:') OR NOT contains(pod_uid, '-')
),

name AS (
    SELECT sum(CAST(hash(cluster, alias, pod_uid, created_at, seen) AS HUGEINT)) AS name_no
    FROM dim.pod_alias
),

-- Turns of holders within an hour; whole hours are told by their supply.
turned AS (
    SELECT make_timestamp(grain_start_us(turned_us, 3600000000)) AS hour_at, sum(CAST(hash(site_no, pod_uid, unit_id, account, share_ppm, turned_us, side) AS HUGEINT)) AS part_no
    FROM (
        SELECT site.cluster || '/' || site.place_id AS site_no, piece.pod_uid, piece.unit_id, piece.account, piece.share_ppm, piece.from_us AS turned_us, 0 AS side
        FROM dim.supply_piece AS piece
        JOIN (SELECT DISTINCT site_no, cluster, place_id FROM dim.supply_site) AS site ON site.site_no = piece.site_no
        UNION ALL
        SELECT site.cluster || '/' || site.place_id, piece.pod_uid, piece.unit_id, piece.account, piece.share_ppm, piece.to_us, 1
        FROM dim.supply_piece AS piece
        JOIN (SELECT DISTINCT site_no, cluster, place_id FROM dim.supply_site) AS site ON site.site_no = piece.site_no
        UNION ALL
        SELECT site.cluster || '/' || site.place_id, NULL, NULL, NULL, load.cards * 16 + load.rest_account * 4 + load.rest_service, load.from_us, 2
        FROM dim.supply_load AS load
        JOIN (SELECT DISTINCT site_no, cluster, place_id FROM dim.supply_site) AS site ON site.site_no = load.site_no
    ) AS edge
    GROUP BY hour_at
),

-- Holders that start, in each hour in which they do, what they hold of a card, and who works in it by hand.
holder AS (
    SELECT hour_at, sum(part_no) AS part_no
    FROM (
        SELECT
            unnest(
                generate_series(
                    date_trunc('hour', holding.started_at),
                    greatest(
                        holding.started_at,
                        CASE
                            WHEN holder.starting_until_us = 4611686018427387904 THEN coalesce(holding.ended_at, holding.known_to_at)
                            WHEN holder.ready_us IS NOT NULL THEN make_timestamp(holder.ready_us + threshold.load_us)
                            ELSE holding.started_at
                        END
                    ),
                    INTERVAL 1 HOUR
                )
            ) AS hour_at,
            CAST(hash(holder.cluster, holder.place_id, holder.pod_uid, holder.unit_id, holder.ready_us, holder.starting_until_us) AS HUGEINT) AS part_no
        FROM dim.gpu_state_holder AS holder
        CROSS JOIN dim.state_threshold AS threshold
        JOIN ledger.holding AS holding
            ON holding.cluster = holder.cluster AND holding.place_kind = holder.place_kind AND holding.place_id = holder.place_id
            AND holding.pod_uid IS NOT DISTINCT FROM holder.pod_uid AND holding.unit_id IS NOT DISTINCT FROM holder.unit_id
        WHERE holder.starting_until_us > -4611686018427387904
        UNION ALL
        SELECT
            unnest(generate_series(date_trunc('hour', holding.started_at), coalesce(holding.ended_at, holding.known_to_at), INTERVAL 1 HOUR)),
            CAST(hash(holder.cluster, holder.place_id, holder.pod_uid, holder.unit_id, holder.is_mig, holder.gi, holder.is_interactive) AS HUGEINT)
        FROM dim.gpu_state_holder AS holder
        JOIN ledger.holding AS holding
            ON holding.cluster = holder.cluster AND holding.place_kind = holder.place_kind AND holding.place_id = holder.place_id
            AND holding.pod_uid IS NOT DISTINCT FROM holder.pod_uid AND holding.unit_id IS NOT DISTINCT FROM holder.unit_id
        WHERE (holder.is_mig OR holder.is_interactive) AND coalesce(holding.ended_at, holding.known_to_at) > holding.started_at
    ) AS started
    WHERE hour_at BETWEEN (SELECT history_from_at FROM parameter) AND (SELECT horizon_at FROM parameter)
    GROUP BY hour_at
),

hung AS (
    SELECT make_timestamp(hour_us) AS hour_at, sum(CAST(hash(cluster, device_uuid, gi, minutes_mask) AS HUGEINT)) AS part_no
    FROM dim.gpu_state_hang
    GROUP BY hour_us
),

-- A request's wait within each hour, so that one that merely goes on changes the last hour alone.
asked AS (
    SELECT
        hour_at,
        sum(
            CAST(
                hash(
                    cluster, demand_id, asked_us, share_ppm, cause, greatest(from_us, epoch_us(hour_at)), least(to_us, epoch_us(hour_at) + 3600000000)
                ) AS HUGEINT
            )
        ) AS part_no
    FROM (
        SELECT
            *,
            unnest(
                generate_series(
                    greatest(date_trunc('hour', make_timestamp(from_us)), (SELECT history_from_at FROM parameter)),
                    least(make_timestamp(to_us - 1), (SELECT horizon_at FROM parameter)), INTERVAL 1 HOUR
                )
            ) AS hour_at
        FROM dim.gpu_state_asked
    ) AS cut
    GROUP BY hour_at
),

-- What holds for all hours.
ground AS (
    SELECT
        (SELECT sum(CAST(hash(cluster, source, scope, gap_max_us) AS HUGEINT)) FROM dim.usage_gap) AS gap_no,
        (SELECT greatest(3600000000, coalesce(max(gap_max_us), 0)) FROM dim.usage_gap) AS reach_us,
        (SELECT sum(CAST(hash(cluster, device_uuid, node) AS HUGEINT)) FROM dim.device) AS home_no,
        (SELECT sum(CAST(hash(cluster, device_uuid) AS HUGEINT)) FROM dim.usage_shareable) AS shareable_no
)

SELECT
    booked.hour_at,
    booked.hour_at + INTERVAL 1 HOUR + INTERVAL (ground.reach_us) MICROSECONDS > (SELECT as_of_at FROM parameter) AS is_open,
    CAST(
        hash(
            booked.part_no, sampled.samples, sampled_beside.part_no, turned.part_no, holder.part_no, hung.part_no, asked.part_no, ground.gap_no,
            ground.home_no, ground.shareable_no, CASE WHEN named_hour.hour_at IS NOT NULL THEN name.name_no END
        ) >> 1 AS BIGINT
    ) AS ground_no
FROM booked
CROSS JOIN ground
CROSS JOIN name
LEFT JOIN named_hour ON named_hour.hour_at = booked.hour_at
LEFT JOIN dim.sampled_hour AS sampled ON sampled.hour_at = booked.hour_at
LEFT JOIN sampled_beside ON sampled_beside.hour_at = booked.hour_at
LEFT JOIN turned ON turned.hour_at = booked.hour_at
LEFT JOIN holder ON holder.hour_at = booked.hour_at
LEFT JOIN hung ON hung.hour_at = booked.hour_at
LEFT JOIN asked ON asked.hour_at = booked.hour_at
