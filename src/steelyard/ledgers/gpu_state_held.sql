-- GPU-time of each posting of held time by state, floored once for each: what it is split by. Time that no sample covers is the
-- remainder, held_unknown:telemetry (:instance where nobody tells which GPU instance it is). Several holders on a unit: who is active on a path of its own has the card's state, who is inactive is idle, who has no
-- path is unattributed.
WITH
covered AS (
    SELECT
        turn.posting_no, turn.cluster, turn.pod_uid, turn.hour_us, turn.share_ppm, turn.basis, turn.ready_us,
        turn.is_interactive, unit.code & 31 AS state_no, (unit.code >> 5) & 7 AS cause_no, unit.code & 256 <> 0 AS is_fallback,
        greatest(turn.from_us, unit.from_us) AS from_us, least(turn.to_us, unit.to_us) AS to_us,
        CASE WHEN turn.basis = 'card' THEN unit.minutes_mask & ~coalesce(path.inactive_mask, 0) ELSE unit.minutes_mask END AS minutes_mask,
        CASE WHEN turn.basis = 'card' THEN coalesce(path.active_mask, 0) ELSE -1 END AS own_mask
    FROM dim.gpu_state_turn AS turn
    JOIN dim.gpu_state_unit AS unit
        ON unit.cluster = turn.cluster AND unit.device_uuid = turn.device_uuid AND unit.gi IS NOT DISTINCT FROM turn.unit_gi
        AND unit.hour_us = turn.hour_us AND unit.from_us < turn.to_us AND unit.to_us > turn.from_us
    LEFT JOIN dim.gpu_state_path AS path
        ON turn.basis = 'card' AND path.cluster = turn.cluster AND path.device_uuid = turn.device_uuid
        AND path.pod_uid = turn.pod_uid AND path.hour_us = turn.hour_us
    WHERE NOT turn.is_starting
),

-- kind 0: by the unit's own state; 1: inactive on its own path; 2: no path.
judged AS (
    SELECT
        posting_no, cluster, pod_uid, hour_us, share_ppm, basis, ready_us, is_interactive, 0 AS kind, state_no, cause_no,
        is_fallback, from_us, to_us, minutes_mask & own_mask AS minutes_mask
    FROM covered
    WHERE minutes_mask & own_mask <> 0
    UNION ALL
    SELECT
        turn.posting_no, turn.cluster, turn.pod_uid, turn.hour_us, turn.share_ppm, 'card', turn.ready_us,
        turn.is_interactive, 1, 5, 0, FALSE, turn.from_us, turn.to_us, path.inactive_mask
    FROM dim.gpu_state_turn AS turn
    JOIN dim.gpu_state_path AS path
        ON path.cluster = turn.cluster AND path.device_uuid = turn.device_uuid AND path.pod_uid = turn.pod_uid AND path.hour_us = turn.hour_us
    WHERE turn.basis = 'card' AND path.inactive_mask <> 0
    UNION ALL
    SELECT
        posting_no, cluster, pod_uid, hour_us, share_ppm, basis, ready_us, is_interactive, 2, state_no, cause_no, is_fallback,
        from_us, to_us, minutes_mask & ~own_mask
    FROM covered
    WHERE minutes_mask & ~own_mask <> 0
),

-- Idle and low time is told apart by what there is evidence of, the first of the causes in their order; each takes what the ones before it left.
evident AS (
    SELECT
        judged.*,
        coalesce(evidence.no_load_mask, 0) AS no_load_mask,
        CASE
            WHEN judged.cause_no & 2 <> 0 AND judged.ready_us < judged.hour_us + 3600000000
                AND judged.ready_us + threshold.load_us > judged.hour_us
                THEN minutes_between(
                    greatest(judged.ready_us - judged.hour_us, 0) // 60000000,
                    (least(judged.ready_us + threshold.load_us, judged.hour_us + 3600000000) - 1 - judged.hour_us) // 60000000
                )
            ELSE 0
        END AS load_mask,
        CASE WHEN judged.is_interactive THEN -1 ELSE 0 END AS interactive_mask,
        coalesce(evidence.host_cpu_mask, 0) AS host_cpu_mask,
        coalesce(evidence.io_mask, 0) AS io_mask,
        coalesce(evidence.network_mask, 0) AS network_mask,
        CASE WHEN judged.cause_no & 1 <> 0 THEN -1 ELSE 0 END AS throttled_mask
    FROM judged
    CROSS JOIN dim.state_threshold AS threshold
    LEFT JOIN dim.gpu_state_evidence AS evidence
        ON evidence.cluster = judged.cluster AND evidence.pod_uid = judged.pod_uid AND evidence.hour_us = judged.hour_us
    WHERE judged.kind < 2 AND judged.state_no IN (5, 6)
),

caused AS (
    SELECT
        evident.posting_no, evident.hour_us, evident.share_ppm, evident.basis, evident.state_no,
        evident.is_fallback, evident.from_us, evident.to_us, cause.cause,
        evident.minutes_mask & CASE cause.cause_no
            WHEN 1 THEN no_load_mask
            WHEN 2 THEN load_mask & ~no_load_mask
            WHEN 3 THEN interactive_mask & ~no_load_mask & ~load_mask
            WHEN 4 THEN host_cpu_mask & ~no_load_mask & ~load_mask & ~interactive_mask
            WHEN 5 THEN io_mask & ~no_load_mask & ~load_mask & ~interactive_mask & ~host_cpu_mask
            WHEN 6 THEN network_mask & ~no_load_mask & ~load_mask & ~interactive_mask & ~host_cpu_mask & ~io_mask
            WHEN 7 THEN throttled_mask & ~no_load_mask & ~load_mask & ~interactive_mask & ~host_cpu_mask & ~io_mask & ~network_mask
            ELSE ~(no_load_mask | load_mask | interactive_mask | host_cpu_mask | io_mask | network_mask | throttled_mask)
        END AS minutes_mask
    FROM evident
    CROSS JOIN (
        SELECT unnest([1, 2, 3, 4, 5, 6, 7, 8]) AS cause_no,
            unnest(['no_load', 'model_load', 'interactive', 'host_cpu', 'io', 'network', 'throttled', 'unknown']) AS cause
    ) AS cause
),

timed AS (
    SELECT
        posting_no, gpu_state_name(state_no) AS state, cause,
        basis || CASE WHEN is_fallback THEN '+203' ELSE '' END AS basis, share_ppm,
        measured_us(minutes_mask, hour_us, from_us, to_us) AS length_us
    FROM caused
    WHERE minutes_mask <> 0
    UNION ALL
    SELECT
        posting_no,
        CASE WHEN kind = 2 AND state_no < 9 THEN 'held_unattributed' ELSE gpu_state_name(state_no) END,
        CASE
            WHEN state_no > 9 THEN gpu_state_missing(state_no)
            WHEN kind = 2 THEN gpu_state_name(state_no)
            WHEN state_no = 7 THEN CASE cause_no WHEN 4 THEN 'copy' WHEN 5 THEN 'collective_wait' WHEN 6 THEN 'small_kernels' ELSE 'unknown' END
        END,
        basis || CASE WHEN is_fallback THEN '+203' ELSE '' END, share_ppm, measured_us(minutes_mask, hour_us, from_us, to_us)
    FROM judged
    WHERE NOT (kind < 2 AND state_no IN (5, 6))
    UNION ALL
    SELECT posting_no, 'held_starting', NULL, basis, share_ppm, to_us - from_us
    FROM dim.gpu_state_turn
    WHERE is_starting
),

whole AS (
    SELECT
        posting_no, sum_of_gpu_time_us(to_us - from_us, share_ppm) AS gpu_us,
        CASE WHEN bool_and(coalesce(unit_gi = -1, FALSE)) THEN 'instance' ELSE 'telemetry' END AS cause
    FROM dim.gpu_state_turn
    GROUP BY posting_no
),

stated AS (
    SELECT posting_no, state, cause, basis, sum_of_gpu_time_us(length_us, share_ppm) AS gpu_us
    FROM timed
    WHERE length_us > 0
    GROUP BY posting_no, state, cause, basis
)

SELECT posting_no, state, cause, basis, gpu_us
FROM stated
UNION ALL
SELECT whole.posting_no, 'held_unknown', whole.cause, 'occupancy', whole.gpu_us - coalesce(known.gpu_us, 0)
FROM whole
LEFT JOIN (SELECT posting_no, CAST(sum(gpu_us) AS BIGINT) AS gpu_us FROM stated GROUP BY posting_no) AS known
    ON known.posting_no = whole.posting_no
WHERE whole.gpu_us - coalesce(known.gpu_us, 0) > 0
