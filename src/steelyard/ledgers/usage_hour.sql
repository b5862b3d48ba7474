-- What the usage of each hour was computed from, as one number: samples, processes, who held what, and what both are read with. An hour whose
-- number is as it was when it was last posted need not be computed again (see windows.py). is_open: neither the hour nor the time for which its
-- samples may stand is over as of the facts.
WITH
parameter AS (
    SELECT history_from_at, horizon_at, as_of_at FROM dim.parameter
),

process_hour AS (
    SELECT
        date_trunc('hour', occurred_at) AS hour_at, count(*) AS samples, coalesce(bool_or(starts_with(pod_uid, 'name:') OR NOT contains(pod_uid, '-')), FALSE) AS by_name
    FROM fact.process_sample
    WHERE occurred_at BETWEEN (SELECT history_from_at FROM parameter) AND (SELECT horizon_at FROM parameter)
    GROUP BY date_trunc('hour', occurred_at)
),

-- The gaps that sources declare, the nodes of cards, which may be shared, the instances of units and their shares hold for all hours; names of pods for those that need them.
ground AS (
    SELECT
        (
            SELECT sum(CAST(hash(cluster, source, scope, gap_max_us) AS HUGEINT))
            FROM dim.usage_gap
        ) AS gap_no,
        (SELECT greatest(3600000000, coalesce(max(gap_max_us), 0)) FROM dim.usage_gap) AS reach_us,
        (
            SELECT sum(CAST(hash(cluster, device_uuid, node) AS HUGEINT))
            FROM dim.device
        ) AS home_no,
        (
            SELECT sum(CAST(hash(cluster, unit_id, gi) AS HUGEINT))
            FROM dim.unit
            WHERE gi IS NOT NULL
        ) AS unit_no,
        (
            SELECT sum(CAST(hash(cluster, device_uuid, gi, share_ppm, from_us, to_us) AS HUGEINT))
            FROM dim.usage_instance
        ) AS share_no,
        (SELECT sum(CAST(hash(cluster, device_uuid) AS HUGEINT)) FROM dim.usage_shareable) AS shareable_no
),

-- Hours with samples, and those for which a sample of an earlier one may stand: what is held there counts too.
hour AS (
    SELECT hour_at, sum(samples) AS samples, sum(processes) AS processes, bool_or(by_name) AS by_name
    FROM (
        SELECT hour_at, samples, 0 AS processes, FALSE AS by_name FROM dim.sampled_hour
        UNION ALL
        SELECT hour_at, 0, samples, by_name FROM process_hour
        UNION ALL
        SELECT
            unnest(generate_series(hour_at + INTERVAL 1 HOUR, hour_at + INTERVAL (ground.reach_us) MICROSECONDS, INTERVAL 1 HOUR)), 0, 0, FALSE
        FROM dim.sampled_hour
        CROSS JOIN ground
    ) AS touched
    GROUP BY hour_at
),

name AS (
    SELECT sum(CAST(hash(cluster, alias, pod_uid, created_at, seen) AS HUGEINT)) AS name_no
    FROM dim.pod_alias
),

-- Each holding cut into hours: how far it reaches within the hour, so that one that merely goes on changes the last hour alone.
holder_hour AS (
    SELECT
        hour_at,
        sum(
            CAST(
                hash(
                    cluster, place_kind, place_id, device_uuid, unit_kind, unit_id, gi, pod_uid, occupancy, share_ppm >= 1000000,
                    greatest(started_at, hour_at), least(until_at, hour_at + INTERVAL 1 HOUR)
                ) AS HUGEINT
            )
        ) AS holders_no
    FROM (
        SELECT
            held.*,
            unnest(generate_series(date_trunc('hour', greatest(started_at, span.from_at)), least(until_at, span.to_at), INTERVAL 1 HOUR)) AS hour_at
        FROM (
            SELECT *, coalesce(ended_at, known_to_at) AS until_at
            FROM ledger.holding
            WHERE occupancy <> 'reserved' AND coalesce(ended_at, known_to_at) > started_at
        ) AS held
        CROSS JOIN (SELECT min(hour_at) AS from_at, max(hour_at) + INTERVAL 1 HOUR AS to_at FROM hour) AS span
        WHERE held.started_at < span.to_at AND held.until_at > span.from_at
    ) AS cut
    GROUP BY hour_at
)

SELECT
    hour.hour_at,
    hour.hour_at + INTERVAL 1 HOUR + INTERVAL (ground.reach_us) MICROSECONDS > (SELECT as_of_at FROM parameter) AS is_open,
    CAST(
        hash(
            hour.samples, hour.processes, holder_hour.holders_no, ground.gap_no, ground.home_no, ground.unit_no, ground.share_no, ground.shareable_no,
            CASE WHEN hour.by_name THEN name.name_no END
        ) >> 1 AS BIGINT
    ) AS ground_no
FROM hour
CROSS JOIN ground
CROSS JOIN name
LEFT JOIN holder_hour ON holder_hour.hour_at = hour.hour_at
