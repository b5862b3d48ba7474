-- Q3: where every GPU-second went. All amounts come from the ledger of states, in whole grains; demand from the waits.

-- name: grain
SELECT grain_us, weight_default_ppm FROM dim.parameter;

-- name: weights
SELECT
    model, weight_ppm,
    coalesce(epoch_us(valid_from_at), $from_us) AS from_us,
    coalesce(epoch_us(valid_to_at), $to_us) AS to_us
FROM dim.model_weight
ORDER BY position;

-- name: stated
SELECT
    cluster, place_kind, place_id, node, device_uuid, pod_uid, state, cause, basis,
    CAST(sum(amount_gpu_us) AS DECIMAL(38, 0)) AS amount_gpu_us
FROM ledger.gpu_state
WHERE grain_at >= make_timestamp($from_us)
    AND grain_at < make_timestamp($to_us)
GROUP BY cluster, place_kind, place_id, node, device_uuid, pod_uid, state, cause, basis;

-- name: stated_by_grain
-- Step by step of $step_us, a whole number of grains.
SELECT
    cluster, place_kind, place_id, node, device_uuid, pod_uid, state, cause, basis,
    epoch_us(grain_at) - (epoch_us(grain_at) % $step_us + $step_us) % $step_us AS at_us,
    CAST(sum(amount_gpu_us) AS DECIMAL(38, 0)) AS amount_gpu_us
FROM ledger.gpu_state
WHERE grain_at >= make_timestamp($from_us)
    AND grain_at < make_timestamp($to_us)
GROUP BY cluster, place_kind, place_id, node, device_uuid, pod_uid, state, cause, basis, at_us;

-- name: total_by_grain
SELECT
    state, epoch_us(grain_at) - (epoch_us(grain_at) % $step_us + $step_us) % $step_us AS at_us,
    CAST(sum(amount_gpu_us) AS DECIMAL(38, 0)) AS amount_gpu_us
FROM ledger.gpu_state
WHERE grain_at >= make_timestamp($from_us)
    AND grain_at < make_timestamp($to_us)
GROUP BY state, at_us
ORDER BY at_us, state;

-- name: span
SELECT epoch_us(min(grain_at)) AS first_us, epoch_us(max(grain_at)) AS last_us
FROM ledger.gpu_state
WHERE grain_at >= make_timestamp($from_us)
    AND grain_at < make_timestamp($to_us);

-- name: holders
-- The pods that hold anything in the window.
SELECT
    cluster, pod_uid, namespace, pod, node, phase, tenant, workload_kind, workload_name, queue, qos, scheduler
FROM dim.pod
WHERE (cluster, pod_uid) IN (
    SELECT (cluster, pod_uid)
    FROM ledger.gpu_state
    WHERE pod_uid IS NOT NULL
        AND grain_at >= make_timestamp($from_us)
        AND grain_at < make_timestamp($to_us)
);

-- name: persons
SELECT member.cluster, member.pod_uid, min(demand.person) AS person
FROM dim.demand_pod AS member
JOIN dim.demand AS demand ON demand.cluster = member.cluster AND demand.demand_id = member.demand_id
WHERE demand.person IS NOT NULL
GROUP BY member.cluster, member.pod_uid;

-- name: devices
SELECT cluster, device_uuid, node, device_index, vendor, model, memory_mib, placeable, state, state_reason
FROM dim.device
QUALIFY row_number() OVER (PARTITION BY cluster, device_uuid ORDER BY valid_from_at DESC NULLS LAST, node) = 1;

-- name: nodes
SELECT cluster, node, gpu_product AS model FROM dim.node;

-- name: counted_cards
SELECT cluster, node, cards_count, memory_mib, from_us, to_us
FROM dim.node_capacity
ORDER BY cluster, node, from_us;

-- name: idle_since
-- From which grain on a pod has done no work that anybody saw. A grain with work in it is none of them.
SELECT cluster, pod_uid, epoch_us(min(grain_at)) AS since_us
FROM (
    SELECT
        cluster, pod_uid, grain_at, state,
        max(CASE WHEN state IN ('saturated', 'memory_bound', 'compute_bound', 'mixed', 'held_low') THEN grain_at END) OVER (
            PARTITION BY cluster, pod_uid
        ) AS worked_at
    FROM ledger.gpu_state
    WHERE pod_uid IS NOT NULL
        AND grain_at >= make_timestamp($from_us)
        AND grain_at < make_timestamp($to_us)
) AS seen
WHERE state IN ('held_idle', 'busy_not_working', 'suspected_hang')
    AND (worked_at IS NULL OR grain_at > worked_at)
GROUP BY cluster, pod_uid;

-- name: cards_last
-- The last grain of each card in the window, and the shares of its states in it.
SELECT cluster, device_uuid, state, epoch_us(grain_at) AS at_us, CAST(sum(amount_gpu_us) AS BIGINT) AS amount_gpu_us,
    count(DISTINCT pod_uid) AS pods_count
FROM (
    SELECT *, max(grain_at) OVER (PARTITION BY cluster, device_uuid) AS last_at
    FROM ledger.gpu_state
    WHERE device_uuid IS NOT NULL
        AND grain_at >= make_timestamp($from_us)
        AND grain_at < make_timestamp($to_us)
) AS of_card
WHERE grain_at = last_at
GROUP BY cluster, device_uuid, state, grain_at;

-- name: unplaced_last
-- Nodes and grains in which somebody holds cards that no source names.
SELECT DISTINCT cluster, node, epoch_us(grain_at) AS at_us
FROM ledger.gpu_state
WHERE place_kind = 'node'
    AND pod_uid IS NOT NULL
    AND grain_at >= make_timestamp($from_us)
    AND grain_at < make_timestamp($to_us);

-- name: pending
-- Demand that free share is matched with, over the window.
SELECT
    wait.cluster, wait.namespace, demand.queue, demand.tenant, demand.workload_kind, demand.workload_name, demand.person,
    waiting_cause(wait.cause, wait.stage, wait.demand_kind) AS cause, count(DISTINCT wait.demand_id) AS requests_count,
    CAST(
        sum(
            CAST(
                least(epoch_us(coalesce(wait.ended_at, wait.known_to_at)), $to_us) - greatest(epoch_us(wait.started_at), $from_us) AS HUGEINT
            ) * wait.gpu_milli
        ) AS DECIMAL(38, 0)
    ) AS milli_us
FROM ledger.wait AS wait
LEFT JOIN dim.demand AS demand ON demand.cluster = wait.cluster AND demand.demand_id = wait.demand_id
WHERE claims_free_share(wait.stage, wait.fit, wait.gpu_milli, wait.unknown_reason)
    AND wait.started_at < make_timestamp($to_us)
    AND coalesce(wait.ended_at, wait.known_to_at) > make_timestamp($from_us)
GROUP BY
    wait.cluster, wait.namespace, demand.queue, demand.tenant, demand.workload_kind, demand.workload_name, demand.person,
    waiting_cause(wait.cause, wait.stage, wait.demand_kind);

-- name: waiting_owners
-- Whose requests the free time was matched with that somebody waited for: grain by grain and cause by cause, those who ask for longest first, each at most
-- what it asked for in that grain. The ledger matches instant by instant, so within a grain in which requests come and go it may have been another's.
WITH
asked AS (
    SELECT
        cluster, namespace, demand_id, waiting_cause(cause, stage, demand_kind) AS cause, gpu_milli, asked_us,
        greatest(epoch_us(started_at), $from_us) AS lo, least(epoch_us(coalesce(ended_at, known_to_at)), $to_us) AS hi
    FROM (SELECT *, epoch_us(min(started_at) OVER (PARTITION BY cluster, demand_id)) AS asked_us FROM ledger.wait) AS wait
    WHERE claims_free_share(stage, fit, gpu_milli, unknown_reason)
        AND started_at < make_timestamp($to_us) AND coalesce(ended_at, known_to_at) > make_timestamp($from_us)
),

part AS (
    SELECT
        cluster, namespace, demand_id, cause, asked_us, grain_us_at,
        sum(CAST(least(hi, grain_us_at + grain_us) - greatest(lo, grain_us_at) AS HUGEINT) * gpu_milli) AS milli_us
    FROM (
        SELECT asked.*, parameter.grain_us, unnest(range(grain_start_us(lo, parameter.grain_us), hi, parameter.grain_us)) AS grain_us_at
        FROM asked
        CROSS JOIN dim.parameter AS parameter
        WHERE hi > lo
    ) AS cut
    GROUP BY cluster, namespace, demand_id, cause, asked_us, grain_us_at
),

line AS (
    SELECT *, sum(milli_us) OVER (PARTITION BY cluster, grain_us_at, cause ORDER BY asked_us, demand_id, namespace ROWS UNBOUNDED PRECEDING) AS reach
    FROM part
),

waited AS (
    SELECT cluster, epoch_us(grain_at) AS grain_us_at, cause, CAST(sum(amount_gpu_us) AS HUGEINT) * 1000 AS milli_us
    FROM ledger.gpu_state
    WHERE state = 'free_waiting' AND grain_at >= make_timestamp($from_us) AND grain_at < make_timestamp($to_us)
    GROUP BY cluster, grain_at, cause
)

SELECT
    line.cluster, line.namespace, demand.queue, demand.tenant, demand.workload_kind, demand.workload_name, demand.person, line.cause,
    CAST(sum(least(line.reach, waited.milli_us) - (line.reach - line.milli_us)) // 1000 AS BIGINT) AS matched_us
FROM line
JOIN waited ON waited.cluster = line.cluster AND waited.grain_us_at = line.grain_us_at AND waited.cause = line.cause
LEFT JOIN dim.demand AS demand ON demand.cluster = line.cluster AND demand.demand_id = line.demand_id
WHERE line.reach - line.milli_us < waited.milli_us
GROUP BY line.cluster, line.namespace, demand.queue, demand.tenant, demand.workload_kind, demand.workload_name, demand.person, line.cause
ORDER BY ALL;

-- name: balance
SELECT CAST(coalesce(sum(abs(residual)), 0) AS DECIMAL(38, 0)) AS residual_gpu_us
FROM (
    SELECT sum(amount_gpu_us) AS residual
    FROM (
        SELECT cluster, place_kind, place_id, grain_at, amount_gpu_us
        FROM ledger.supply
        WHERE account = 'supply' AND grain_at >= make_timestamp($from_us) AND grain_at < make_timestamp($to_us)
        UNION ALL
        SELECT cluster, place_kind, place_id, grain_at, -amount_gpu_us
        FROM ledger.gpu_state
        WHERE grain_at >= make_timestamp($from_us) AND grain_at < make_timestamp($to_us)
    ) AS both_sides
    GROUP BY cluster, place_kind, place_id, grain_at
) AS balanced;
