-- Each look at what a pod uses of a card beside what it was granted, judged: rule, whether it was above its tolerance (is_over), and how long that is shown
-- [instant_us, to_us): until the next look where that is closer than dim.over_use_threshold.shown_us, else for the sample's own interval, else no time at all.
-- Memory and cores are looked at by one path an hour: one that looks often enough before one that does not, then the driver's processes, what the layer
-- counted, and the card itself where one pod alone holds it and nobody else has a process there
-- (its memory only above what was in use right before that pod came). A card's use divided by reservation is never looked at.
WITH
-- Who may be on each card within what is read, besides those whose card of its node is not known (is_hidden).
presence AS (
    SELECT cluster, device_uuid, pod_uid, FALSE AS is_hidden, from_us, to_us
    FROM dim.excess_held
    WHERE device_uuid IS NOT NULL AND occupancy <> 'reserved' AND from_us <= CAST($read_to_us AS BIGINT) AND to_us > CAST($read_from_us AS BIGINT)
    UNION ALL
    SELECT card.cluster, card.device_uuid, hidden.pod_uid, TRUE, hidden.from_us, hidden.to_us
    FROM (SELECT DISTINCT cluster, device_uuid, node FROM dim.excess_held WHERE device_uuid IS NOT NULL AND occupancy <> 'reserved') AS card
    JOIN dim.excess_held AS hidden ON hidden.cluster = card.cluster AND hidden.node = card.node AND hidden.device_uuid IS NULL
    WHERE hidden.from_us <= CAST($read_to_us AS BIGINT) AND hidden.to_us > CAST($read_from_us AS BIGINT)
),

turn AS (
    SELECT cluster, device_uuid, turned_us AS from_us, lead(turned_us) OVER (PARTITION BY cluster, device_uuid ORDER BY turned_us) AS to_us
    FROM (SELECT DISTINCT cluster, device_uuid, unnest([from_us, to_us]) AS turned_us FROM presence) AS edge
),

-- When a card is one pod's alone.
sole AS (
    SELECT turn.cluster, turn.device_uuid, turn.from_us, turn.to_us, max(presence.pod_uid) AS pod_uid
    FROM turn
    JOIN presence
        ON presence.cluster = turn.cluster AND presence.device_uuid = turn.device_uuid AND presence.from_us <= turn.from_us
        AND presence.to_us >= turn.to_us
    GROUP BY turn.cluster, turn.device_uuid, turn.from_us, turn.to_us
    HAVING count(DISTINCT presence.pod_uid) = 1 AND NOT bool_or(presence.is_hidden)
),

hour AS (
    SELECT cluster, device_uuid, grain_start_us(instant_us, 3600000000) AS hour_us, max(used_mib) AS most_mib, max(used_ppm) AS most_ppm
    FROM dim.excess_board
    GROUP BY cluster, device_uuid, grain_start_us(instant_us, 3600000000)
),

-- What was looked at of pods themselves: processes, and what the layer counted.
told AS (
    SELECT 'process' AS path, 1 AS path_no, cluster, device_uuid, pod_uid, instant_us, max(interval_us) AS interval_us, CAST(sum(processes) AS BIGINT) AS processes,
        CASE WHEN count(used_mib) = count(*) THEN CAST(sum(used_mib) AS BIGINT) END AS used_mib,
        CASE WHEN count(used_ppm) = count(*) THEN CAST(least(sum(used_ppm), 1000000) AS BIGINT) END AS used_ppm
    FROM dim.excess_process
    WHERE pod_uid IS NOT NULL AND verdict IS NULL
    GROUP BY cluster, device_uuid, pod_uid, instant_us
    UNION ALL
    SELECT 'soft_partition', 2, cluster, device_uuid, pod_uid, instant_us, NULL, 1, used_mib, used_ppm
    FROM dim.excess_counted
),

-- Pods that any path shows, at any time, with more than they have a right to there. All others stay below their grants look by look, and most are such.
watched AS (
    SELECT sole.cluster, sole.device_uuid, sole.pod_uid
    FROM sole
    JOIN hour
        ON hour.cluster = sole.cluster AND hour.device_uuid = sole.device_uuid AND hour.hour_us < sole.to_us AND hour.hour_us + 3600000000 > sole.from_us
    JOIN dim.excess_held AS held
        ON held.cluster = sole.cluster AND held.device_uuid = sole.device_uuid AND held.pod_uid = sole.pod_uid AND held.unit_kind = 'vgpu'
    WHERE hour.most_mib > least(held.memory_mib, 100000000) OR hour.most_ppm > held.cores_percent * 10000
    UNION
    SELECT told.cluster, told.device_uuid, told.pod_uid
    FROM told
    JOIN dim.excess_held AS held
        ON held.cluster = told.cluster AND held.device_uuid = told.device_uuid AND held.pod_uid = told.pod_uid AND held.unit_kind = 'vgpu'
    WHERE told.used_mib > least(held.memory_mib, 100000000) OR told.used_ppm > held.cores_percent * 10000
),

-- Hours in which processes stand on a card: whose, where all are one pod's.
process_hour AS (
    SELECT cluster, device_uuid, instant_us // 3600000000 AS hour_no, CASE WHEN count(pod_uid) = count(*) AND min(pod_uid) = max(pod_uid) THEN min(pod_uid) END AS pod_uid
    FROM dim.excess_process
    GROUP BY cluster, device_uuid, instant_us // 3600000000
),

looked AS (
    SELECT told.*
    FROM told
    JOIN watched ON watched.cluster = told.cluster AND watched.device_uuid = told.device_uuid AND watched.pod_uid = told.pod_uid
    UNION ALL
    SELECT 'device', 3, board.cluster, board.device_uuid, sole.pod_uid, board.instant_us, board.interval_us, 1, board.used_mib - before.before_mib, board.used_ppm
    FROM sole
    JOIN watched ON watched.cluster = sole.cluster AND watched.device_uuid = sole.device_uuid AND watched.pod_uid = sole.pod_uid
    JOIN dim.excess_board AS board
        ON board.cluster = sole.cluster AND board.device_uuid = sole.device_uuid AND board.instant_us >= sole.from_us AND board.instant_us < sole.to_us
    LEFT JOIN dim.excess_before AS before
        ON before.cluster = sole.cluster AND before.device_uuid = sole.device_uuid AND before.pod_uid = sole.pod_uid
    LEFT JOIN process_hour AS process
        ON process.cluster = board.cluster AND process.device_uuid = board.device_uuid AND process.hour_no = board.instant_us // 3600000000
    WHERE process.cluster IS NULL OR process.pod_uid = sole.pod_uid
),

granted AS (
    SELECT
        looked.path, looked.path_no, looked.cluster, looked.device_uuid, looked.pod_uid, looked.instant_us, max(looked.interval_us) AS interval_us,
        max(looked.processes) AS processes, max(looked.used_mib) AS used_mib, max(looked.used_ppm) AS used_ppm,
        CASE WHEN count(held.memory_mib) = count(*) THEN CAST(least(sum(held.memory_mib), 100000000) AS BIGINT) END AS granted_mib,
        CASE WHEN count(held.cores_percent) = count(*) THEN CAST(least(sum(held.cores_percent), 100000) AS BIGINT) END AS granted_percent
    FROM looked
    JOIN dim.excess_held AS held
        ON held.cluster = looked.cluster AND held.device_uuid = looked.device_uuid AND held.pod_uid = looked.pod_uid AND held.unit_kind = 'vgpu'
        AND held.occupancy <> 'reserved' AND looked.instant_us >= held.from_us AND looked.instant_us < held.to_us
    GROUP BY looked.path, looked.path_no, looked.cluster, looked.device_uuid, looked.pod_uid, looked.instant_us
),

measured AS (
    SELECT 'memory' AS rule, path, path_no, cluster, device_uuid, pod_uid, instant_us, interval_us, processes, 1 AS samples_count, used_mib, granted_mib,
        CAST(NULL AS BIGINT) AS used_ppm, CAST(NULL AS BIGINT) AS granted_percent
    FROM granted
    WHERE used_mib IS NOT NULL AND granted_mib IS NOT NULL
    UNION ALL
    SELECT 'compute', granted.path, granted.path_no, granted.cluster, granted.device_uuid, granted.pod_uid, granted.instant_us // 60000000 * 60000000 AS instant_us, 60000000,
        1, count(*), NULL, NULL, CAST(floor(avg(granted.used_ppm)) AS BIGINT), max(granted.granted_percent)
    FROM granted
    CROSS JOIN dim.over_use_threshold AS threshold
    LEFT JOIN dim.excess_spec AS spec ON spec.cluster = granted.cluster AND spec.pod_uid = granted.pod_uid
    WHERE granted.used_ppm IS NOT NULL AND granted.granted_percent > 0 AND (threshold.cores_forced OR spec.is_forced)
    GROUP BY granted.path, granted.path_no, granted.cluster, granted.device_uuid, granted.pod_uid, granted.instant_us // 60000000 * 60000000
),

chosen AS (
    SELECT rule, cluster, device_uuid, pod_uid, hour_no, arg_min(path, (CASE WHEN looks >= 4 THEN 0 ELSE 1 END, path_no)) AS path
    FROM (
        SELECT rule, cluster, device_uuid, pod_uid, instant_us // 3600000000 AS hour_no, path, path_no, count(*) AS looks
        FROM measured
        GROUP BY rule, cluster, device_uuid, pod_uid, instant_us // 3600000000, path, path_no
    ) AS counted
    GROUP BY rule, cluster, device_uuid, pod_uid, hour_no
),

card AS (
    SELECT cluster, device_uuid, max(memory_mib) AS memory_mib
    FROM dim.device
    WHERE memory_mib > 0
    GROUP BY cluster, device_uuid
),

judged AS (
    SELECT
        measured.rule, measured.path, measured.cluster, measured.device_uuid, CAST(NULL AS BIGINT) AS gi, measured.pod_uid, measured.instant_us,
        measured.interval_us, measured.samples_count, measured.granted_mib, measured.used_mib, measured.granted_percent, measured.used_ppm,
        CASE measured.rule
            WHEN 'memory' THEN
                measured.used_mib - measured.granted_mib
                > over_use_tolerance_mib(measured.granted_mib, measured.processes, threshold.memory_percent, threshold.memory_process_mib)
            ELSE measured.used_ppm > (measured.granted_percent + threshold.compute_points) * 10000
        END AS is_over,
        CASE measured.rule
            WHEN 'memory' THEN (measured.used_mib - measured.granted_mib) * 1000000 // card.memory_mib
            ELSE measured.used_ppm - measured.granted_percent * 10000
        END AS excess_ppm,
        measured.used_mib - measured.granted_mib AS excess_mib,
        lag(measured.instant_us) OVER looks AS before_us, lead(measured.instant_us) OVER looks AS next_us
    FROM measured
    CROSS JOIN dim.over_use_threshold AS threshold
    JOIN chosen
        ON chosen.rule = measured.rule AND chosen.cluster = measured.cluster AND chosen.device_uuid = measured.device_uuid
        AND chosen.pod_uid = measured.pod_uid AND chosen.hour_no = measured.instant_us // 3600000000 AND chosen.path = measured.path
    LEFT JOIN card ON card.cluster = measured.cluster AND card.device_uuid = measured.device_uuid
    WINDOW looks AS (PARTITION BY measured.rule, measured.cluster, measured.device_uuid, measured.pod_uid ORDER BY measured.instant_us)
    UNION ALL
    SELECT
        process.verdict, 'process', process.cluster, process.device_uuid, process.gi, process.pod_uid, process.instant_us, process.interval_us, 1, NULL,
        process.used_mib, NULL, process.used_ppm, TRUE,
        greatest(
            CASE WHEN process.used_mib IS NOT NULL AND card.memory_mib IS NOT NULL THEN least(process.used_mib * 1000000 // card.memory_mib, 1000000) END,
            process.used_ppm
        ),
        process.used_mib, process.before_us, process.next_us
    FROM dim.excess_process AS process
    LEFT JOIN card ON card.cluster = process.cluster AND card.device_uuid = process.device_uuid
    WHERE process.verdict IS NOT NULL
),

timed AS (
    SELECT
        judged.*,
        CASE
            WHEN judged.next_us - judged.instant_us < threshold.shown_us THEN judged.next_us
            WHEN judged.interval_us > 0 AND judged.interval_us < threshold.shown_us THEN judged.instant_us + judged.interval_us
            ELSE judged.instant_us
        END AS to_us,
        least(judged.next_us - judged.instant_us, judged.instant_us - judged.before_us) AS near_us
    FROM judged
    CROSS JOIN dim.over_use_threshold AS threshold
)

SELECT
    *,
    coalesce(lag(is_over) OVER looks AND lag(to_us) OVER looks = instant_us, FALSE) AS continues
FROM timed
WINDOW looks AS (PARTITION BY rule, cluster, device_uuid, gi, pod_uid ORDER BY instant_us)
