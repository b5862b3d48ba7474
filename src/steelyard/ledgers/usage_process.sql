-- What the processes of a pod, proven to be its own, held of a card's memory, and for how long each round stands (as in usage_stretch):
-- for its interval, else until the next round of processes on that card where the source declares the gap. The parts of a pod are summed.
WITH
resolved AS (
    SELECT cluster, source, device_uuid, gi, pod_uid, occurred_at, interval_us, memory_used_mib
    FROM (
        SELECT
            process.cluster, process.source, process.device_uuid, process.gi, process.occurred_at, process.interval_us,
            process.memory_used_mib, coalesce(named.pod_uid, process.pod_uid) AS pod_uid,
            row_number() OVER (
                PARTITION BY process.fact_id ORDER BY named.seen DESC NULLS LAST, named.created_at DESC NULLS LAST, named.pod_uid
            ) AS choice
        FROM fact.process_sample AS process
        LEFT JOIN dim.pod_alias AS named
            ON named.cluster = process.cluster AND named.alias = process.pod_uid
            AND (named.created_at IS NULL OR named.created_at <= process.occurred_at)
        WHERE process.occurred_at BETWEEN (SELECT history_from_at FROM dim.parameter) AND (SELECT horizon_at FROM dim.parameter)
            AND process.occurred_at BETWEEN make_timestamp(CAST($read_from_us AS BIGINT)) AND make_timestamp(CAST($read_to_us AS BIGINT))
    ) AS named
    WHERE choice = 1
),

round AS (
    SELECT
        cluster, device_uuid, occurred_at, source,
        lead(occurred_at) OVER (PARTITION BY cluster, device_uuid ORDER BY occurred_at) AS next_at
    FROM (
        SELECT cluster, device_uuid, occurred_at, max(source) AS source
        FROM resolved
        GROUP BY cluster, device_uuid, occurred_at
    ) AS seen
),

home AS (
    SELECT cluster, device_uuid, max(node) AS node
    FROM dim.device
    GROUP BY cluster, device_uuid
),

timed_round AS (
    SELECT
        round.cluster, round.device_uuid, round.occurred_at, epoch_us(round.occurred_at) AS from_us, epoch_us(round.next_at) AS next_us,
        greatest(coalesce(of_node.gap_max_us, 0), coalesce(of_all.gap_max_us, 0)) AS gap_max_us
    FROM round
    LEFT JOIN home ON home.cluster = round.cluster AND home.device_uuid = round.device_uuid
    LEFT JOIN dim.usage_gap AS of_node
        ON of_node.cluster = round.cluster AND of_node.source = round.source AND of_node.scope = 'node/' || home.node
    LEFT JOIN dim.usage_gap AS of_all
        ON of_all.cluster = round.cluster AND of_all.source = round.source AND of_all.scope = 'cluster'
),

summed AS (
    SELECT
        cluster, device_uuid, gi, pod_uid, occurred_at, max(interval_us) AS interval_us,
        CASE
            WHEN count(memory_used_mib) = count(*) AND min(memory_used_mib) >= 0 AND sum(memory_used_mib) <= 100000000
                THEN CAST(sum(memory_used_mib) AS BIGINT)
        END AS memory_mib
    FROM resolved
    WHERE pod_uid IS NOT NULL
    GROUP BY cluster, device_uuid, gi, pod_uid, occurred_at
)

SELECT
    summed.cluster, summed.device_uuid, summed.gi, summed.pod_uid, summed.memory_mib, timed_round.from_us,
    CASE
        WHEN summed.interval_us > 0
            THEN least(timed_round.from_us + least(summed.interval_us, 3600000000), coalesce(timed_round.next_us, 4611686018427387904))
        WHEN timed_round.next_us - timed_round.from_us <= timed_round.gap_max_us THEN timed_round.next_us
        ELSE timed_round.from_us
    END AS to_us
FROM summed
JOIN timed_round
    ON timed_round.cluster = summed.cluster AND timed_round.device_uuid = summed.device_uuid
    AND timed_round.occurred_at = summed.occurred_at
