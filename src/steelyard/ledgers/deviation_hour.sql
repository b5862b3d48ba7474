-- The hours in which a sharing layer's exporters said anything, those for which a sample of an earlier one may stand, and what each was posted from
-- as one number (see usage_hour): samples of the layer, what the usage of the hour was computed from, who held which part of which card.
WITH
parameter AS (
    SELECT history_from_at, horizon_at, as_of_at FROM dim.parameter
),

spoken AS (
    SELECT date_trunc('hour', occurred_at) AS hour_at, count(*) AS samples
    FROM fact.partition_sample
    WHERE origin IN ('monitor', 'scheduler')
        AND occurred_at BETWEEN (SELECT history_from_at FROM parameter) AND (SELECT horizon_at FROM parameter)
    GROUP BY date_trunc('hour', occurred_at)
),

reach AS (
    SELECT greatest(3600000000, coalesce(max(gap_max_us), 0)) AS reach_us FROM dim.usage_gap
),

hour AS (
    SELECT hour_at, sum(samples) AS samples
    FROM (
        SELECT hour_at, samples FROM spoken
        UNION ALL
        SELECT unnest(generate_series(hour_at + INTERVAL 1 HOUR, hour_at + INTERVAL (reach.reach_us) MICROSECONDS, INTERVAL 1 HOUR)), 0
        FROM spoken
        CROSS JOIN reach
    ) AS touched
    GROUP BY hour_at
),

asked AS (
    SELECT coalesce(sum(CAST(hash(cluster, pod_uid, device_uuid, container, allowed_memory_mib, requested_cores_percent) AS HUGEINT)), 0) AS asked_no
    FROM dim."grant"
    WHERE device_uuid IS NOT NULL AND (allowed_memory_mib IS NOT NULL OR requested_cores_percent IS NOT NULL)
),

name AS (
    SELECT coalesce(sum(CAST(hash(cluster, alias, pod_uid, created_at) AS HUGEINT)), 0) AS name_no
    FROM dim.pod_alias
),

holder_hour AS (
    SELECT
        hour_at,
        sum(
            CAST(
                hash(
                    cluster, device_uuid, gi, pod_uid, occupancy, memory_mib, cores_percent, greatest(started_at, hour_at),
                    least(until_at, hour_at + INTERVAL 1 HOUR), ended_at IS NULL
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
            WHERE occupancy <> 'reserved' AND device_uuid IS NOT NULL AND coalesce(ended_at, known_to_at) > started_at
        ) AS held
        CROSS JOIN (SELECT min(hour_at) AS from_at, max(hour_at) + INTERVAL 1 HOUR AS to_at FROM hour) AS span
        WHERE held.started_at < span.to_at AND held.until_at > span.from_at
    ) AS cut
    GROUP BY hour_at
)

SELECT
    hour.hour_at,
    hour.hour_at + INTERVAL 1 HOUR + INTERVAL (reach.reach_us) MICROSECONDS > (SELECT as_of_at FROM parameter) AS is_open,
    CAST(
        hash(hour.samples, holder_hour.holders_no, measured.ground_no, reach.reach_us, asked.asked_no, name.name_no) >> 1 AS BIGINT
    ) AS ground_no
FROM hour
CROSS JOIN reach
CROSS JOIN asked
CROSS JOIN name
LEFT JOIN holder_hour ON holder_hour.hour_at = hour.hour_at
LEFT JOIN dim.usage_hour AS measured ON measured.hour_at = hour.hour_at
