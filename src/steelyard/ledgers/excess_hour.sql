-- The hours in which anybody looked at what pods use beside their grants, and what each is judged by, as one number (see windows.py): how many samples of
-- each path (of cards: of all of them, which are counted already), who held what, and what is known of the pods that were seen.
WITH
parameter AS (
    SELECT history_from_at, horizon_at, as_of_at FROM dim.parameter
),

hour AS (
    SELECT hour_at, CAST(sum(samples) AS BIGINT) AS samples
    FROM (
        SELECT date_trunc('hour', occurred_at) AS hour_at, count(*) AS samples
        FROM fact.process_sample
        WHERE occurred_at BETWEEN (SELECT history_from_at FROM parameter) AND (SELECT horizon_at FROM parameter)
        GROUP BY date_trunc('hour', occurred_at)
        UNION ALL
        SELECT date_trunc('hour', occurred_at), count(*) * 1000003
        FROM fact.partition_sample
        WHERE origin = 'monitor' AND occurred_at BETWEEN (SELECT history_from_at FROM parameter) AND (SELECT horizon_at FROM parameter)
        GROUP BY date_trunc('hour', occurred_at)
        UNION ALL
        SELECT hour_at, samples * 1000000007
        FROM dim.sampled_hour
        WHERE EXISTS (SELECT 1 FROM dim.excess_held WHERE unit_kind = 'vgpu' AND device_uuid IS NOT NULL)
    ) AS counted
    GROUP BY hour_at
),

span AS (
    SELECT min(hour_at) AS from_at, max(hour_at) + INTERVAL 1 HOUR AS to_at FROM hour
),

held_hour AS (
    SELECT
        hour_at,
        sum(
            CAST(
                hash(
                    cluster, pod_uid, device_uuid, gi, node, unit_kind, occupancy, is_whole, memory_mib, cores_percent, is_forced, before_mib, greatest(from_us, epoch_us(hour_at)),
                    least(over_us, epoch_us(hour_at) + 3600000000)
                ) AS HUGEINT
            )
        ) AS held_no
    FROM (
        SELECT
            held.*, coalesce(spec.is_forced, FALSE) AS is_forced, before.before_mib,
            unnest(
                generate_series(
                    date_trunc('hour', greatest(make_timestamp(held.from_us), span.from_at)),
                    CASE WHEN held.over_us > epoch_us(span.to_at) THEN span.to_at ELSE make_timestamp(held.over_us) END, INTERVAL 1 HOUR
                )
            ) AS hour_at
        FROM dim.excess_held AS held
        CROSS JOIN span
        LEFT JOIN dim.excess_spec AS spec ON spec.cluster = held.cluster AND spec.pod_uid = held.pod_uid
        LEFT JOIN dim.excess_before AS before
            ON before.cluster = held.cluster AND before.device_uuid = held.device_uuid AND before.pod_uid = held.pod_uid
        WHERE make_timestamp(held.from_us) < span.to_at AND held.over_us > epoch_us(span.from_at)
    ) AS cut
    GROUP BY hour_at
),

-- What is known of each pod that has a process: what it holds at any time, and what it asked for.
pod_seen AS (
    SELECT seen.hour_at, sum(CAST(hash(pod.cluster, pod.pod_uid, pod.namespace, pod.workload_kind, pod.requested, pod.gpu_count, held.held_no) AS HUGEINT)) AS pods_no
    FROM (
        SELECT DISTINCT date_trunc('hour', sample.occurred_at) AS hour_at, sample.cluster, coalesce(named.pod_uid, sample.pod_uid) AS pod_uid
        FROM fact.process_sample AS sample
        LEFT JOIN dim.pod_alias AS named ON named.cluster = sample.cluster AND named.alias = sample.pod_uid
        WHERE sample.pod_uid IS NOT NULL
    ) AS seen
    JOIN dim.pod AS pod ON pod.cluster = seen.cluster AND pod.pod_uid = seen.pod_uid
    LEFT JOIN (
        SELECT cluster, pod_uid, sum(CAST(hash(device_uuid, gi, occupancy, from_us, over_us) AS HUGEINT)) AS held_no
        FROM dim.excess_held
        GROUP BY cluster, pod_uid
    ) AS held ON held.cluster = seen.cluster AND held.pod_uid = seen.pod_uid
    GROUP BY seen.hour_at
),

ground AS (
    SELECT sum(CAST(hash(cluster, device_uuid, memory_mib) AS HUGEINT)) AS card_no FROM dim.device
)

SELECT
    hour.hour_at, hour.hour_at + INTERVAL 2 HOUR > (SELECT as_of_at FROM parameter) AS is_open,
    CAST(hash(hour.samples, held_hour.held_no, pod_seen.pods_no, ground.card_no) >> 1 AS BIGINT) AS ground_no
FROM hour
CROSS JOIN ground
LEFT JOIN held_hour ON held_hour.hour_at = hour.hour_at
LEFT JOIN pod_seen ON pod_seen.hour_at = hour.hour_at
