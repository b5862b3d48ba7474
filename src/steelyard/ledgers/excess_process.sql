-- The processes of each pod on each card at each round, and what they are there by: verdict NULL = by a grant, or nobody can tell. pod_uid NULL:
-- processes whose pod is not proven, which are nobody's. next_us: the next round of processes of that card.
-- The site's own processes and pods are left out (dim.over_use_exempt).
WITH
one AS (
    SELECT
        cluster, device_uuid, pid, occurred_at, max(gi) AS gi, max(pod_uid) AS alias, max(process_name) AS process_name, max(interval_us) AS interval_us,
        max(CASE WHEN memory_used_mib BETWEEN 0 AND 100000000 THEN memory_used_mib END) AS memory_mib, max(ratio_ppm(sm_ratio)) AS sm_ppm
    FROM fact.process_sample
    WHERE occurred_at BETWEEN (SELECT history_from_at FROM dim.parameter) AND (SELECT horizon_at FROM dim.parameter)
        AND occurred_at BETWEEN make_timestamp(CAST($read_from_us AS BIGINT)) AND make_timestamp(CAST($read_to_us AS BIGINT))
    GROUP BY cluster, device_uuid, pid, occurred_at
),

resolved AS (
    SELECT * EXCLUDE (choice)
    FROM (
        SELECT
            one.*, coalesce(named.pod_uid, one.alias) AS pod_uid,
            row_number() OVER (
                PARTITION BY one.cluster, one.device_uuid, one.pid, one.occurred_at
                ORDER BY named.seen DESC NULLS LAST, named.created_at DESC NULLS LAST, named.pod_uid
            ) AS choice
        FROM one
        LEFT JOIN dim.pod_alias AS named
            ON named.cluster = one.cluster AND named.alias = one.alias AND (named.created_at IS NULL OR named.created_at <= one.occurred_at)
    ) AS chosen
    WHERE choice = 1
),

round AS (
    SELECT
        cluster, device_uuid, occurred_at,
        epoch_us(lag(occurred_at) OVER turns) AS before_us, epoch_us(lead(occurred_at) OVER turns) AS next_us
    FROM (SELECT DISTINCT cluster, device_uuid, occurred_at FROM one) AS seen
    WINDOW turns AS (PARTITION BY cluster, device_uuid ORDER BY occurred_at)
),

of_pod AS (
    SELECT
        resolved.cluster, resolved.device_uuid, resolved.gi, resolved.pod_uid, resolved.occurred_at, epoch_us(resolved.occurred_at) AS instant_us,
        max(resolved.interval_us) AS interval_us, count(*) AS processes,
        CASE WHEN count(resolved.memory_mib) = count(*) THEN CAST(least(sum(resolved.memory_mib), 100000000) AS BIGINT) END AS used_mib,
        CASE WHEN count(resolved.sm_ppm) = count(*) THEN CAST(least(sum(resolved.sm_ppm), 1000000) AS BIGINT) END AS used_ppm,
        bool_or(coalesce(pod.requested AND pod.gpu_count = 0, FALSE)) AS asked_nothing
    FROM resolved
    LEFT JOIN dim.pod AS pod ON pod.cluster = resolved.cluster AND pod.pod_uid = resolved.pod_uid
    WHERE NOT coalesce(pod.namespace IN (SELECT name FROM dim.over_use_exempt WHERE kind = 'namespace'), FALSE)
        AND NOT coalesce(
            pod.workload_kind = 'DaemonSet'
            AND list_last(string_split(split_part(resolved.process_name, ' ', 1), '/')) IN (SELECT name FROM dim.over_use_exempt WHERE kind = 'process'),
            FALSE
        )
    GROUP BY resolved.cluster, resolved.device_uuid, resolved.gi, resolved.pod_uid, resolved.occurred_at
),

standing AS (
    SELECT
        seen.cluster, seen.device_uuid, seen.gi, seen.pod_uid, seen.instant_us,
        bool_or(held.device_uuid IS NULL OR (held.is_here AND seen.instant_us >= held.from_us - threshold.end_grace_us AND seen.instant_us <= held.last_us)) AS is_covered,
        bool_or(held.is_here) AS was_here, max(CASE WHEN held.is_here THEN held.last_us END) AS last_us
    FROM of_pod AS seen
    CROSS JOIN dim.over_use_threshold AS threshold
    JOIN (
        SELECT target.device_uuid AS target_uuid, target.gi AS target_gi, held.*, held.over_us + threshold.end_grace_us AS last_us,
            coalesce(held.device_uuid = target.device_uuid AND coalesce(held.gi = target.gi, TRUE), FALSE) AS is_here
        FROM (SELECT DISTINCT cluster, pod_uid, device_uuid, gi FROM of_pod WHERE pod_uid IS NOT NULL) AS target
        CROSS JOIN dim.over_use_threshold AS threshold
        JOIN dim.excess_held AS held ON held.cluster = target.cluster AND held.pod_uid = target.pod_uid
    ) AS held
        ON held.cluster = seen.cluster AND held.pod_uid = seen.pod_uid AND held.target_uuid = seen.device_uuid
        AND held.target_gi IS NOT DISTINCT FROM seen.gi
    GROUP BY seen.cluster, seen.device_uuid, seen.gi, seen.pod_uid, seen.instant_us
)

SELECT
    seen.cluster, seen.device_uuid, seen.gi, seen.pod_uid, seen.instant_us, seen.interval_us, seen.processes, seen.used_mib, seen.used_ppm,
    round.before_us, round.next_us,
    CASE
        WHEN seen.pod_uid IS NULL OR standing.is_covered THEN NULL
        WHEN standing.cluster IS NULL THEN CASE WHEN seen.asked_nothing THEN 'no_grant' END
        WHEN standing.was_here THEN CASE WHEN seen.instant_us > standing.last_us THEN 'after_end' END
        ELSE 'outside_allocation'
    END AS verdict
FROM of_pod AS seen
JOIN round ON round.cluster = seen.cluster AND round.device_uuid = seen.device_uuid AND round.occurred_at = seen.occurred_at
LEFT JOIN standing
    ON standing.cluster = seen.cluster AND standing.device_uuid = seen.device_uuid AND standing.gi IS NOT DISTINCT FROM seen.gi
    AND standing.pod_uid = seen.pod_uid AND standing.instant_us = seen.instant_us
