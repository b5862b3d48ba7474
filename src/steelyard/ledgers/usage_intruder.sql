-- Rounds of processes of pods that hold nothing of the card when the round is taken: with one of them on it nobody has the card to himself, for as long as
-- the round stands, an instant at least, and not beyond the time from which the pod holds the card. gi: the instance that the process was seen on, NULL where it
-- was not told: then it may be on any. The one rule for `usage` (what a card did is its one holder's) and `gpu_state` (its triple tells what that one did).
WITH
held AS (
    SELECT
        holding.cluster, holding.device_uuid, coalesce(holding.gi, unit.gi) AS gi, holding.pod_uid, epoch_us(holding.started_at) AS lo,
        epoch_us(coalesce(holding.ended_at, holding.known_to_at)) AS hi
    FROM ledger.holding AS holding
    LEFT JOIN dim.unit AS unit ON unit.cluster = holding.cluster AND unit.unit_id = holding.unit_id
    WHERE holding.device_uuid IS NOT NULL AND holding.occupancy <> 'reserved'
        AND coalesce(holding.ended_at, holding.known_to_at) > holding.started_at
),

intruder AS (
    SELECT process.cluster, process.device_uuid, process.gi, process.pod_uid, process.from_us, process.to_us
    FROM dim.usage_process AS process
    WHERE NOT EXISTS (
        SELECT 1
        FROM held
        WHERE held.cluster = process.cluster AND held.device_uuid = process.device_uuid AND held.pod_uid = process.pod_uid
            AND (held.gi IS NULL OR process.gi IS NULL OR held.gi = process.gi) AND held.lo <= process.from_us AND held.hi > process.from_us
    )
)

SELECT
    intruder.cluster, intruder.device_uuid, intruder.gi, intruder.pod_uid, intruder.from_us,
    greatest(least(intruder.to_us, coalesce(min(held.lo), intruder.to_us)), intruder.from_us + 1) AS to_us
FROM intruder
LEFT JOIN held
    ON held.cluster = intruder.cluster AND held.device_uuid = intruder.device_uuid AND held.pod_uid = intruder.pod_uid
    AND (held.gi IS NULL OR intruder.gi IS NULL OR held.gi = intruder.gi) AND held.lo > intruder.from_us
GROUP BY intruder.cluster, intruder.device_uuid, intruder.gi, intruder.pod_uid, intruder.from_us, intruder.to_us
