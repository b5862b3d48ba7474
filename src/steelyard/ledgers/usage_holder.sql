-- When a unit has exactly one holder, and who it is: the ground for attributing all that the unit used. gi NULL is the card as a whole.
-- A holder of less than the whole unit is not the only one who may use it: what such a unit used stays in the residual.
-- A claim in suspense, a holder on an unknown card of the same node and a MIG holder on an unknown instance make a unit shared, and so does a process
-- proven to be that of a pod that holds nothing of the card when its round is taken, for as long as the round stands. A card
-- whose one holder has only a MIG instance is not attributed as a whole.
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

-- Rounds of processes of pods that hold nothing of the card.
intruder AS (
    SELECT process.cluster, process.device_uuid, process.gi, process.pod_uid, process.from_us, process.to_us
    FROM dim.usage_process AS process
    WHERE NOT EXISTS (
        SELECT 1
        FROM held
        WHERE held.cluster = process.cluster AND held.device_uuid = process.device_uuid AND held.pod_uid = process.pod_uid
            AND (held.gi IS NULL OR process.gi IS NULL OR held.gi = process.gi) AND held.lo <= process.from_us AND held.hi > process.from_us
    )
),

claim AS (
    SELECT sampled.cluster, sampled.device_uuid, sampled.gi, held.pod_uid, held.lo, held.hi,
        held.occupancy = 'held' AND held.whole AND (sampled.gi IS NOT NULL OR held.unit_kind <> 'mig') AND (sampled.gi IS NULL OR held.gi IS NOT NULL) AS sole
    FROM sampled
    JOIN held ON held.cluster = sampled.cluster AND held.device_uuid = sampled.device_uuid
    WHERE sampled.gi IS NULL OR held.gi = sampled.gi OR held.gi IS NULL
    UNION ALL
    SELECT sampled.cluster, sampled.device_uuid, sampled.gi, holding.pod_uid,
        epoch_us(holding.started_at), epoch_us(coalesce(holding.ended_at, holding.known_to_at)), FALSE
    FROM sampled
    JOIN dim.device AS card ON card.cluster = sampled.cluster AND card.device_uuid = sampled.device_uuid
    JOIN ledger.holding AS holding
        ON holding.cluster = card.cluster AND holding.place_kind = 'node' AND holding.place_id = card.node
    WHERE holding.occupancy <> 'reserved' AND coalesce(holding.ended_at, holding.known_to_at) > holding.started_at
        AND holding.started_at < make_timestamp(CAST($to_us AS BIGINT))
        AND coalesce(holding.ended_at, holding.known_to_at) > make_timestamp(CAST($from_us AS BIGINT))
    UNION ALL
    SELECT
        sampled.cluster, sampled.device_uuid, sampled.gi, intruder.pod_uid, intruder.from_us, greatest(intruder.to_us, intruder.from_us + 1), FALSE
    FROM sampled
    JOIN intruder
        ON intruder.cluster = sampled.cluster AND intruder.device_uuid = sampled.device_uuid
        AND (sampled.gi IS NULL OR intruder.gi IS NULL OR intruder.gi = sampled.gi)
),

-- The stays of one pod on one unit, merged where they touch; a stay that cannot be attributed stands beside.
stay AS (
    SELECT cluster, device_uuid, gi, pod_uid, sole, min(lo) AS lo, max(hi) AS hi
    FROM (
        SELECT
            *,
            sum(CASE WHEN lo <= reach_before THEN 0 ELSE 1 END) OVER (
                PARTITION BY cluster, device_uuid, gi, pod_uid, sole ORDER BY lo, hi ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS island_no
        FROM (
            SELECT
                *,
                max(hi) OVER (
                    PARTITION BY cluster, device_uuid, gi, pod_uid, sole ORDER BY lo, hi
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ) AS reach_before
            FROM claim
        ) AS reached
    ) AS numbered
    GROUP BY cluster, device_uuid, gi, pod_uid, sole, island_no
),

numbered_stay AS (
    SELECT
        stay.cluster, stay.device_uuid, stay.gi, stay.lo, stay.hi, CASE WHEN stay.sole THEN 1 ELSE 1000000 END AS weight,
        dense_rank() OVER (ORDER BY stay.cluster, stay.pod_uid) AS pod_no, stay.pod_uid
    FROM stay
),

turn AS (
    SELECT cluster, device_uuid, gi, turned_at, sum(weight) AS weight, sum(pod_no) AS pod_no
    FROM (
        SELECT cluster, device_uuid, gi, lo AS turned_at, weight, pod_no FROM numbered_stay
        UNION ALL
        SELECT cluster, device_uuid, gi, hi, -weight, -pod_no FROM numbered_stay
    ) AS edge
    GROUP BY cluster, device_uuid, gi, turned_at
),

swept AS (
    SELECT
        cluster, device_uuid, gi, turned_at AS lo, lead(turned_at) OVER sweep AS hi,
        sum(weight) OVER sweep AS weight,
        CAST(sum(pod_no) OVER sweep AS BIGINT) AS pod_no
    FROM turn
    WINDOW sweep AS (PARTITION BY cluster, device_uuid, gi ORDER BY turned_at)
)

SELECT swept.cluster, swept.device_uuid, swept.gi, pod.pod_uid, swept.lo AS from_us, swept.hi AS to_us
FROM swept
JOIN (SELECT DISTINCT pod_no, pod_uid FROM numbered_stay) AS pod ON pod.pod_no = swept.pod_no
WHERE swept.weight = 1 AND swept.hi IS NOT NULL
