-- When a unit has exactly one holder, and who it is: the ground for attributing all that the unit used. gi NULL is the card as a whole.
-- A holder of less than the whole unit is not the only one who may use it: what such a unit used stays in the residual.
-- A claim in suspense, a holder on an unknown card of the same node and a MIG holder on an unknown instance make a unit shared, and so does a process
-- proven to be that of a pod that holds nothing of the card (dim.usage_intruder). A holder on an unknown card is on another one while this one is granted whole
-- to one pod alone (dim.usage_exclusive), unless what it holds is a part of a shared card. A card whose one holder has only a MIG instance is not attributed as a whole.
WITH
held AS (
    SELECT
        holding.cluster, holding.device_uuid, coalesce(holding.gi, unit.gi) AS gi, holding.unit_kind, holding.pod_uid, holding.occupancy,
        CASE WHEN holding.unit_kind = 'mig' THEN TRUE ELSE coalesce(holding.share_ppm >= 1000000, FALSE) END AS whole,
        epoch_us(holding.started_at) AS lo,
        epoch_us(coalesce(holding.ended_at, holding.known_to_at)) AS hi
    FROM ledger.holding AS holding
    LEFT JOIN dim.unit AS unit ON unit.cluster = holding.cluster AND unit.unit_id = holding.unit_id
    WHERE holding.device_uuid IS NOT NULL AND holding.occupancy <> 'reserved'
        AND coalesce(holding.ended_at, holding.known_to_at) > holding.started_at
        AND holding.started_at < make_timestamp(CAST($to_us AS BIGINT))
        AND coalesce(holding.ended_at, holding.known_to_at) > make_timestamp(CAST($read_from_us AS BIGINT))
),

-- Units that were sampled; only these need an answer.
sampled AS (
    SELECT cluster, device_uuid, gi FROM dim.usage_stretch
    UNION
    SELECT cluster, device_uuid, NULL FROM dim.usage_calm
),

-- kind 0: the one who may use the unit, where nobody else does; 1: one who may use it too; 2: one whose card of the node is not known; 3: the card is
-- one pod's alone.
claim AS (
    SELECT sampled.cluster, sampled.device_uuid, sampled.gi, held.pod_uid, held.lo, held.hi,
        CASE
            WHEN held.occupancy = 'held' AND held.whole AND (sampled.gi IS NOT NULL OR held.unit_kind <> 'mig') AND (sampled.gi IS NULL OR held.gi IS NOT NULL)
                THEN 0
            ELSE 1
        END AS kind
    FROM sampled
    JOIN held ON held.cluster = sampled.cluster AND held.device_uuid = sampled.device_uuid
    WHERE sampled.gi IS NULL OR held.gi = sampled.gi OR held.gi IS NULL
    UNION ALL
    SELECT sampled.cluster, sampled.device_uuid, sampled.gi, holding.pod_uid,
        epoch_us(holding.started_at), epoch_us(coalesce(holding.ended_at, holding.known_to_at)),
        CASE WHEN sampled.gi IS NULL AND holding.unit_kind IN ('gpu', 'mig') THEN 2 ELSE 1 END
    FROM sampled
    JOIN dim.device AS card ON card.cluster = sampled.cluster AND card.device_uuid = sampled.device_uuid
    JOIN ledger.holding AS holding
        ON holding.cluster = card.cluster AND holding.place_kind = 'node' AND holding.place_id = card.node
    WHERE holding.occupancy <> 'reserved' AND coalesce(holding.ended_at, holding.known_to_at) > holding.started_at
        AND holding.started_at < make_timestamp(CAST($to_us AS BIGINT))
        AND coalesce(holding.ended_at, holding.known_to_at) > make_timestamp(CAST($from_us AS BIGINT))
    UNION ALL
    SELECT sampled.cluster, sampled.device_uuid, sampled.gi, exclusive.pod_uid, exclusive.from_us, exclusive.to_us, 3
    FROM sampled
    JOIN dim.usage_exclusive AS exclusive ON exclusive.cluster = sampled.cluster AND exclusive.device_uuid = sampled.device_uuid
    WHERE sampled.gi IS NULL AND exclusive.from_us < CAST($to_us AS BIGINT) AND exclusive.to_us > CAST($read_from_us AS BIGINT)
    UNION ALL
    SELECT sampled.cluster, sampled.device_uuid, sampled.gi, intruder.pod_uid, intruder.from_us, intruder.to_us, 1
    FROM sampled
    JOIN dim.usage_intruder AS intruder
        ON intruder.cluster = sampled.cluster AND intruder.device_uuid = sampled.device_uuid
        AND (sampled.gi IS NULL OR intruder.gi IS NULL OR intruder.gi = sampled.gi)
),

-- The stays of one pod on one unit, merged where they touch, of each kind by itself.
stay AS (
    SELECT cluster, device_uuid, gi, pod_uid, kind, min(lo) AS lo, max(hi) AS hi
    FROM (
        SELECT
            *,
            sum(CASE WHEN lo <= reach_before THEN 0 ELSE 1 END) OVER (
                PARTITION BY cluster, device_uuid, gi, pod_uid, kind ORDER BY lo, hi ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS island_no
        FROM (
            SELECT
                *,
                max(hi) OVER (
                    PARTITION BY cluster, device_uuid, gi, pod_uid, kind ORDER BY lo, hi
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ) AS reach_before
            FROM claim
        ) AS reached
    ) AS numbered
    GROUP BY cluster, device_uuid, gi, pod_uid, kind, island_no
),

numbered_stay AS (
    SELECT
        stay.cluster, stay.device_uuid, stay.gi, stay.lo, stay.hi, stay.kind, CASE WHEN stay.kind = 0 THEN 1 WHEN stay.kind = 1 THEN 1000000 ELSE 0 END AS weight,
        CASE WHEN stay.kind = 2 THEN 1 ELSE 0 END AS unplaced, CASE WHEN stay.kind = 3 THEN 1 ELSE 0 END AS exclusive,
        CASE WHEN stay.kind < 2 THEN dense_rank() OVER (ORDER BY stay.cluster, stay.pod_uid) ELSE 0 END AS pod_no, stay.pod_uid
    FROM stay
),

turn AS (
    SELECT cluster, device_uuid, gi, turned_at, sum(weight) AS weight, sum(unplaced) AS unplaced, sum(exclusive) AS exclusive, sum(pod_no) AS pod_no
    FROM (
        SELECT cluster, device_uuid, gi, lo AS turned_at, weight, unplaced, exclusive, pod_no FROM numbered_stay
        UNION ALL
        SELECT cluster, device_uuid, gi, hi, -weight, -unplaced, -exclusive, -pod_no FROM numbered_stay
    ) AS edge
    GROUP BY cluster, device_uuid, gi, turned_at
),

swept AS (
    SELECT
        cluster, device_uuid, gi, turned_at AS lo, lead(turned_at) OVER sweep AS hi,
        sum(weight) OVER sweep AS weight, sum(unplaced) OVER sweep AS unplaced, sum(exclusive) OVER sweep AS exclusive,
        CAST(sum(pod_no) OVER sweep AS BIGINT) AS pod_no
    FROM turn
    WINDOW sweep AS (PARTITION BY cluster, device_uuid, gi ORDER BY turned_at)
)

SELECT swept.cluster, swept.device_uuid, swept.gi, pod.pod_uid, swept.lo AS from_us, swept.hi AS to_us
FROM swept
JOIN (SELECT DISTINCT pod_no, pod_uid FROM numbered_stay WHERE kind < 2) AS pod ON pod.pod_no = swept.pod_no
WHERE swept.weight = 1 AND (swept.unplaced = 0 OR swept.exclusive > 0) AND swept.hi IS NOT NULL
